package matrix

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"replicator/internal/lab"
	"replicator/internal/pause"
)

// The collation is not MySQL 8's default, which distinguishes texts by trailing spaces. Before 8.0.17, the program
// can't create a target whose keys do so.
const schema = `
CREATE TABLE orders (
  id INT NOT NULL PRIMARY KEY,
  customer VARCHAR(40) NOT NULL,
  status ENUM('new', 'paid', 'shipped') NOT NULL,
  amount INT NOT NULL,
  code VARCHAR(40) NOT NULL UNIQUE
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE cell (
  added_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  row_key INT NOT NULL,
  column_name VARCHAR(20) NOT NULL,
  ref_key BIGINT NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (row_key, column_name, ref_key)
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
`

// world is the source, the sinks, and the program between them.
type world struct {
	t       *testing.T
	source  lab.MySQL
	redis   lab.Redis
	elastic lab.Elastic
	index   string
	listen  string
	program *lab.Program
}

// entities is the maximum number of orders, and of users.
const entities = 100

// write lets two writers work until the returned function is called. That function returns how many statements
// succeeded.
func (w *world) write(seed uint64) (stop func() int) {
	w.t.Helper()
	db, err := sql.Open("mysql", w.source.Server.DSN(w.source.Database))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	written := make([]int, 2)
	for i := range written {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := db.ExecContext(ctx, statement(r, time.Now().UnixNano())); err == nil {
					written[i]++ // otherwise it conflicted with the other writer or an ALTER
				}
				_ = pause.For(ctx, 20*time.Millisecond) // the pace leaves the CPU to the tested program
			}
		})
	}
	return func() int {
		cancel()
		wg.Wait()
		if err := db.Close(); err != nil {
			w.t.Error(err)
		}
		return written[0] + written[1]
	}
}

// statement returns a statement that changes an order, several orders, or a user's cells.
func statement(r *rand.Rand, now int64) string {
	id, customer := r.IntN(entities), fmt.Sprintf("customer %d é", r.IntN(20))
	status := []string{"new", "paid", "shipped"}[r.IntN(3)]
	switch r.IntN(10) {
	case 0:
		return fmt.Sprintf("DELETE FROM orders WHERE id = %d", id)
	case 1:
		return fmt.Sprintf("UPDATE orders SET status = '%s' WHERE id BETWEEN %d AND %d", status, id, id+10)
	case 2, 3:
		return fmt.Sprintf("UPDATE orders SET amount = amount + %d, customer = '%s' WHERE id = %d", r.IntN(100), customer, id)
	case 4, 5, 6:
		return fmt.Sprintf("REPLACE INTO orders (id, customer, status, amount, code) VALUES (%d, '%s', '%s', %d, 'code-%d')",
			id, customer, status, r.IntN(1000), r.IntN(3*entities))
	case 7: // deletes the newest version, so the previous one is shown
		return fmt.Sprintf("DELETE FROM cell WHERE row_key = %d AND column_name = 'users' ORDER BY ref_key DESC LIMIT 1", id)
	case 8:
		return cell(id, "profile", now, fmt.Sprintf(`{"city":"city %d"}`, r.IntN(30)))
	default:
		return cell(id, "users", now, fmt.Sprintf(`{"name":"name %d ü","email":"%d@example.com"}`, r.IntN(100), r.IntN(60)))
	}
}

// cell returns a statement that writes a version of a cell.
func cell(user int, column string, version int64, body string) string {
	return fmt.Sprintf("INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (%d, '%s', %d, '%s')",
		user, column, version, body)
}

// verify compares every view with the rows.
func (w *world) verify(when string) {
	w.t.Helper()
	want, err := w.wanted()
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := w.held()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, view := range slices.Sorted(maps.Keys(want)) {
		for _, d := range lab.Differences(view, want[view], got[view]) {
			w.t.Errorf("%s: %s", when, d)
		}
		if len(want[view]) == 0 {
			w.t.Errorf("%s: nothing is written that view %s shows", when, view)
		}
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// wanted returns the expected content of every view, computed from the source's rows.
func (w *world) wanted() (map[string]lab.Held, error) {
	want := map[string]lab.Held{}
	put := func(view, place, text string) {
		if want[view] == nil {
			want[view] = lab.Held{}
		}
		want[view][place] = text
	}
	orders, err := w.source.Rows(w.t.Context(), "SELECT id, customer, status, amount, code FROM orders")
	if err != nil {
		return nil, err
	}
	amounts, counts := map[string]int{}, map[string]int{}
	for _, o := range orders {
		id, customer, status, amount := o[0], o[1], o[2], o[3]
		fields := map[string]string{"customer": customer, "status": status, "amount": amount}
		put("order_rows", fmt.Sprintf("%q", o[:4]), "")
		put("orders_by_customer", fmt.Sprintf("%q", []string{customer, id}), "")
		for name, value := range fields {
			put("order_hash", "order:"+id+" "+name, value)
		}
		put("order_json", "order_json:"+id, canonical(fields))
		put("order_search", id, canonical(fields))
		put("orders_by_status", "status:"+status+" "+id, "")
		put("order_by_code", "code:"+o[4], id)
		counts[customer]++
		n := 0
		if _, err := fmt.Sscan(amount, &n); err != nil {
			return nil, err
		}
		amounts[customer] += n
	}
	for customer, n := range counts {
		put("orders_of", "count:"+customer, fmt.Sprint(n))
		put("spenders", customer, fmt.Sprint(amounts[customer]))
		put("amounts", fmt.Sprintf("%q", []string{customer, fmt.Sprint(amounts[customer])}), "")
	}
	return want, w.wantedOfCells(put)
}

func (w *world) wantedOfCells(put func(view, place, text string)) error {
	cells, err := w.source.Rows(w.t.Context(), "SELECT row_key, column_name, body FROM cell ORDER BY ref_key")
	if err != nil {
		return err
	}
	newest := map[[2]string]string{}
	for _, c := range cells {
		newest[[2]string{c[0], c[1]}] = c[2]
	}
	for cell, body := range newest {
		var fields map[string]string
		if err := json.Unmarshal([]byte(body), &fields); err != nil {
			return fmt.Errorf("%q: %w", body, err)
		}
		for name, value := range fields {
			put("user_hash", "user:"+cell[0]+" "+name, value)
		}
		if cell[1] == "users" {
			put("user_rows", fmt.Sprintf("%q", []string{cell[0], fields["name"], fields["email"]}), "")
			put("users_by_email", fmt.Sprintf("%q", []string{fields["email"], cell[0]}), "")
		}
	}
	return nil
}

// held returns the content of the sinks' views.
func (w *world) held() (map[string]lab.Held, error) {
	ctx := w.t.Context()
	held := map[string]lab.Held{}
	for view, query := range map[string]string{
		"order_rows":         "SELECT id, customer, status, amount FROM order_rows",
		"orders_by_customer": "SELECT customer, id FROM orders_by_customer",
		"amounts":            "SELECT customer, amount FROM amounts",
		"user_rows":          "SELECT row_key, name, email FROM user_rows",
		"users_by_email":     "SELECT email, row_key FROM users_by_email",
	} {
		rows, err := w.source.Rows(ctx, query)
		if err != nil {
			return nil, err
		}
		held[view] = lab.Lines(rows)
	}
	for view, read := range map[string]func() (lab.Held, error){
		"order_hash":       func() (lab.Held, error) { return w.redis.Hashes(ctx, "order:*") },
		"user_hash":        func() (lab.Held, error) { return w.redis.Hashes(ctx, "user:*") },
		"orders_by_status": func() (lab.Held, error) { return w.redis.Sets(ctx, "status:*") },
		"order_by_code":    func() (lab.Held, error) { return w.redis.Strings(ctx, "code:*") },
		"orders_of":        func() (lab.Held, error) { return w.redis.Strings(ctx, "count:*") },
		"spenders":         func() (lab.Held, error) { return w.redis.Scores(ctx, "spenders") },
		"order_json":       func() (lab.Held, error) { return w.redis.Strings(ctx, "order_json:*") },
	} {
		h, err := read()
		if err != nil {
			return nil, err
		}
		held[view] = h
	}
	for place, text := range held["order_json"] {
		var fields map[string]any
		if err := decode(text, &fields); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", place, text, err)
		}
		held["order_json"][place] = texts(fields)
	}
	documents, err := w.elastic.Documents(ctx, w.index)
	held["order_search"] = lab.Held{}
	for id, fields := range documents {
		held["order_search"][id] = texts(fields)
	}
	return held, err
}

func decode(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// texts is like canonical, but for values of any type.
func texts(fields map[string]any) string {
	all := map[string]string{}
	for name, v := range fields {
		all[name] = fmt.Sprint(v)
	}
	return canonical(all)
}

// canonical formats fields, sorted by name.
func canonical(fields map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, fields[name]))
	}
	return strings.Join(parts, " ")
}
