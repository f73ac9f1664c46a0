package main

import (
	"bytes"
	"compress/zlib"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"replicator/internal/lab"
)

// entity is the source's content for one key. For each value of the column role, it has the fields of the newest row.
// The fields are nil if that row's body can't be decoded.
type entity struct {
	key     []string // the key's values; bytes as hexadecimal digits
	shown   string   // the key, formatted as the program's templates do it
	columns map[string]fields
}

// fields are the fields of a body or a row, as text. Null fields are missing.
type fields map[string]string

// read reads a table's rows from the source, grouped by key.
func (t Table) read(ctx context.Context, db *sql.DB) ([]entity, error) {
	if t.Shape == rows {
		return t.readRows(ctx, db)
	}
	key := t.Key.columns()
	column := "''"
	if t.Shape == cells {
		column = "col"
	}
	got, err := db.QueryContext(ctx, fmt.Sprintf("SELECT %s, body, %s FROM %s ORDER BY version",
		strings.Join(key, ", "), column, t.Name))
	if err != nil {
		return nil, err
	}
	defer got.Close()
	found := entities{t: t, at: map[string]int{}}
	for got.Next() {
		values := make([][]byte, len(key))
		var body []byte
		var col string
		if err := got.Scan(append(pointers(values), &body, &col)...); err != nil {
			return nil, err
		}
		found.of(values).columns[col] = decoded(body) // rows come in version order: the newest row is the last one
	}
	return found.all, got.Err()
}

func (t Table) readRows(ctx context.Context, db *sql.DB) ([]entity, error) {
	key := t.Key.columns()
	own := "own." + strings.Join(key, ", own.") + ", own.n, own.email, own.grp, own.amount"
	up := "NULL"
	if t.Refers != "" {
		up = "own.up"
	}
	query := "SELECT " + own + ", NULL, " + up + ", NULL FROM " + t.Name + " own"
	if t.Joined {
		query = fmt.Sprintf(`SELECT %s, grps.label, above.label, (SELECT COUNT(*) FROM %s peers WHERE peers.grp = own.grp)
			FROM %s own LEFT JOIN grps ON grps.grp = own.grp LEFT JOIN grps above ON above.grp = grps.up`, own, t.Name, t.Name)
	}
	got, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer got.Close()
	found := entities{t: t, at: map[string]int{}}
	for got.Next() {
		values := make([][]byte, len(key))
		var n, grp, amount string
		var email, label, up, peers sql.NullString
		if err := got.Scan(append(pointers(values), &n, &email, &grp, &amount, &label, &up, &peers)...); err != nil {
			return nil, err
		}
		row := fields{"n": n, "grp": grp, "amount": amount}
		for name, value := range map[string]sql.NullString{"email": email, "label": label, "up": up, "peers": peers} {
			if value.Valid {
				row[name] = value.String
			}
		}
		found.of(values).columns[""] = row
	}
	return found.all, got.Err()
}

// entities returns a table's rows from all shards of the source, grouped by key. Each key is in one shard.
func (w *world) entities(ctx context.Context, t Table) ([]entity, error) {
	var all []entity
	for _, db := range w.sourceDBs {
		for _, part := range t.parts() {
			some, err := part.read(ctx, db)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

type entities struct {
	t   Table
	all []entity
	at  map[string]int
}

// of returns the entity of a key. It adds the entity if the key is new.
func (e *entities) of(values [][]byte) entity {
	shown := e.t.Key.show(values)
	i, ok := e.at[shown]
	if !ok {
		i = len(e.all)
		e.at[shown] = i
		key := make([]string, len(values))
		for j, v := range values {
			key[j] = e.t.Key.show([][]byte{v})
		}
		e.all = append(e.all, entity{key: key, shown: shown, columns: map[string]fields{}})
	}
	return e.all[i]
}

func pointers(values [][]byte) []any {
	all := make([]any, len(values))
	for i := range values {
		all[i] = &values[i]
	}
	return all
}

// decoded returns the fields of a body. It returns nil if the body can't be decoded.
func decoded(body []byte) fields {
	if len(body) > 0 && body[0] != '{' {
		r, err := zlib.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil
		}
		if body, err = io.ReadAll(r); err != nil {
			return nil
		}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var values map[string]any
	if d.Decode(&values) != nil {
		return nil
	}
	all := fields{}
	for name, v := range values {
		if v != nil {
			all[name] = fmt.Sprint(v)
		}
	}
	return all
}

// expect returns the content that a view must have.
func (v View) expect(t Table, of []entity) lab.Held {
	held := lab.Held{}
	sums := map[string]int64{}
	claims := map[string]bool{}
	for _, e := range of {
		main := ""
		if t.Shape == cells {
			main = "main"
		}
		own, ok := e.columns[main]
		counts := ok && own != nil && (!v.Where || above(own["amount"], 50))
		switch v.Kind {
		case "row", "hash", "json", "document":
			v.whole(held, t, e, own, counts)
		case "index":
			if email, has := own["email"]; counts && has {
				held[email+" "+e.shown] = ""
			}
		case "counter", "ranking":
			if grp, has := own["grp"]; counts && has {
				amount, _ := strconv.ParseInt(own["amount"], 10, 64)
				sums[grp] += amount
				claims[grp] = true
			}
		}
	}
	for grp := range claims {
		if v.Kind == "ranking" || sums[grp] != 0 {
			held[grp] = strconv.FormatInt(sums[grp], 10)
		}
	}
	return held
}

// whole adds a key's row, hash, string or document to held. counts says whether the view shows the fields in `own`.
func (v View) whole(held lab.Held, t Table, e entity, own fields, counts bool) {
	shown := fields{}
	if counts {
		for _, name := range append([]string{"n", "email", "grp", "amount"}, v.more(t)...) {
			if value, ok := own[name]; ok {
				shown[name] = value
			}
		}
	}
	more, merged := e.columns["more"]
	merged = merged && more != nil && v.Merged
	if merged {
		if city, ok := more["city"]; ok {
			shown["city"] = city
		}
	}
	if counts || merged {
		held[e.shown] = shown.text()
	}
}

// above reports whether a number is above a bound. It returns false for a missing number.
func above(text string, bound int64) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n > bound
}

// text formats fields, sorted by name.
func (f fields) text() string {
	b := &strings.Builder{}
	for _, name := range []string{"n", "email", "grp", "amount", "city", "label", "up", "peers"} {
		if v, ok := f[name]; ok {
			fmt.Fprintf(b, "%s=%s ", name, v)
		}
	}
	return b.String()
}
