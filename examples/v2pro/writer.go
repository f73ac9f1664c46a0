package v2pro

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// Hot is the id of an account that is never closed.
const Hot = "hot"

// Application handles commands. It loads an account's newest state, computes the new state, and appends that with the
// next version. If another application appends this version first, the unique key rejects the second row, and the
// command is tried again.
type Application struct {
	db       *sql.DB
	rand     *rand.Rand
	accounts int
	name     uint64 // the first part of the application's command ids

	commands atomic.Int64
}

// NewApplication returns an application. Two applications on one log need different seeds.
func NewApplication(db *sql.DB, seed uint64, accounts int) *Application {
	return &Application{db: db, rand: rand.New(rand.NewPCG(seed, 0)), accounts: accounts, name: seed}
}

// Commands returns how many commands were committed. It may be called while the application works.
func (a *Application) Commands() int64 { return a.commands.Load() }

// Step handles a command. Now and then it archives an account's old versions instead.
func (a *Application) Step(ctx context.Context) error {
	id := fmt.Sprintf("account-%d", a.rand.IntN(a.accounts))
	switch a.rand.IntN(20) {
	case 0:
		return a.archive(ctx, id)
	case 1:
		return a.Burst(ctx, id, 1+a.rand.IntN(20))
	}
	return a.Burst(ctx, id, 1)
}

// Burst handles n commands for one account and commits them together, like an application server that processes the
// commands of an account in batches.
func (a *Application) Burst(ctx context.Context, id string, n int) error {
	for {
		err := a.append(ctx, id, n)
		if again(err) {
			continue // another application wrote first, so the loaded state is outdated
		}
		if err == nil {
			a.commands.Add(int64(n))
		}
		return err
	}
}

// again reports whether another application interfered: it wrote the version first (1062), there was a deadlock (1213),
// or it changed a row that a MariaDB statement had read (1020).
func again(err error) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && slices.Contains([]uint16{1020, 1062, 1213}, refused.Number)
}

// decimal is a number that MySQL must receive as a DECIMAL, so that it keeps all digits. In a JSON text, MySQL would
// convert the number to DOUBLE.
type decimal string

func (a *Application) append(ctx context.Context, id string, n int) error {
	state, version, err := a.load(ctx, id)
	if err != nil {
		return err
	}
	var rows []string
	var args []any
	for range n {
		version++
		state = a.handle(state)
		if id == Hot {
			state["status"] = "open"
		}
		expression, values := stateSQL(state)
		rows = append(rows, "(?, ?, ?, 'change', '{}', '{\"ok\": true}', "+expression+")")
		args = append(append(args, id, version, fmt.Sprintf("%d-%d", a.name, a.rand.Uint64())), values...)
	}
	_, err = a.db.ExecContext(ctx,
		"INSERT INTO account (entity_id, version, command_id, command_name, request, response, state) VALUES "+
			strings.Join(rows, ", "), args...)
	return err
}

// load reads an account's newest state and version. For an account without versions, it returns an empty state and 0.
func (a *Application) load(ctx context.Context, id string) (map[string]any, int64, error) {
	var text []byte
	var version int64
	err := a.db.QueryRowContext(ctx,
		"SELECT version, state FROM account WHERE entity_id = ? ORDER BY version DESC LIMIT 1", id).Scan(&version, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return map[string]any{"tags": []any{}}, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	state := map[string]any{}
	if err := d.Decode(&state); err != nil {
		return nil, 0, err
	}
	if balance, ok := state["balance"].(json.Number); ok {
		state["balance"] = decimal(balance)
	}
	return state, version, nil
}

// handle returns the state of an account after a random command.
func (a *Application) handle(old map[string]any) map[string]any {
	state := maps.Clone(old)
	pick := func(of ...any) any { return of[a.rand.IntN(len(of))] }
	n := a.rand.IntN(1000)
	for range 1 + a.rand.IntN(4) {
		switch a.rand.IntN(9) {
		case 0:
			state["owner"] = pick("ann", "böb", "学校", "o'neil", `back\slash`, "Zoë \U0001F600")
		case 1:
			state["email"] = fmt.Sprintf("User%d@example.com", n%200)
		case 2:
			state["currency"] = pick("EUR", "JPY", "USD")
		case 3:
			state["status"] = pick("open", "open", "frozen", "closed")
		case 4: // more digits than a DOUBLE has
			state["balance"] = decimal(fmt.Sprintf("%d.%04d", a.rand.Int64N(1e17)-5e16, a.rand.IntN(10000)))
		case 5: // above 2^53, where a DOUBLE can't hold every integer
			state["points"] = json.Number(fmt.Sprint(int64(1)<<53 + a.rand.Int64N(1<<53)))
		case 6:
			state["tags"] = pick([]any{}, []any{"vip"}, []any{"vip", "new"}, []any{"a:b", "a", "b}"})
		case 7:
			state["address"] = map[string]any{"city": pick("Köln", "東京"), "lines": []any{fmt.Sprintf("%d Street", n)}}
		default:
			state["level"] = json.Number(fmt.Sprint(n % 100))
		}
	}
	if a.rand.IntN(10) == 0 {
		if names := slices.Sorted(maps.Keys(state)); len(names) > 0 {
			delete(state, names[a.rand.IntN(len(names))])
		}
	}
	return state
}

// stateSQL returns an SQL expression for the JSON object `state`. The expression inserts each value of type decimal as
// a DECIMAL.
func stateSQL(state map[string]any) (expression string, args []any) {
	rest := map[string]any{}
	expression = "?"
	for _, name := range slices.Sorted(maps.Keys(state)) {
		if d, ok := state[name].(decimal); ok {
			expression = "JSON_SET(" + expression + ", '$." + name + "', CAST(? AS DECIMAL(40, 4)))"
			args = append(args, string(d))
		} else {
			rest[name] = state[name]
		}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		panic(err) // can't happen: JSON can encode any strings, numbers, lists and maps of them
	}
	return expression, append([]any{string(text)}, args...)
}

// archive deletes all versions of an account except the newest few.
func (a *Application) archive(ctx context.Context, id string) error {
	_, err := a.db.ExecContext(ctx,
		"DELETE FROM account WHERE entity_id = ? AND version < (SELECT * FROM (SELECT MAX(version) - 3 FROM account WHERE entity_id = ?) newest)",
		id, id)
	if again(err) {
		return nil // a concurrent writer caused the error; a later call deletes these versions
	}
	return err
}
