package jogchat

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Querier is the part of a database that Verify needs: *sql.DB or *sql.Tx.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Report says what Verify compared, and what differs.
type Report struct {
	Tables      int
	Rows        int      // the number of rows in all tables
	Differences []string // at most a few for each table; empty if every table is right
}

// Verify compares every table with the newest version of each cell. No other client may write while Verify runs.
func Verify(ctx context.Context, source, target Querier) (Report, error) {
	cells, err := newest(ctx, source)
	if err != nil {
		return Report{}, err
	}
	report := Report{}
	for _, t := range Tables() {
		want := map[string]bool{}
		for _, c := range cells[t.Entity] {
			if row, ok := t.expected(c); ok {
				want[row] = true
			}
		}
		got, err := t.held(ctx, target)
		if err != nil {
			return Report{}, fmt.Errorf("table %s: %w", t.Name, err)
		}
		report.Tables++
		report.Rows += len(got)
		report.Differences = append(report.Differences, differences(t.Name, want, got)...)
	}
	return report, nil
}

type cell struct {
	key  []byte
	body map[string]any
}

// newest reads the newest version of each cell, by column_name.
func newest(ctx context.Context, db Querier) (map[string][]cell, error) {
	rows, err := db.QueryContext(ctx,
		"SELECT row_key, column_name, body FROM cell ORDER BY row_key, column_name, ref_key DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	cells := map[string][]cell{}
	var lastKey []byte
	var lastName string
	for rows.Next() {
		var key, body []byte
		var name string
		if err := rows.Scan(&key, &name, &body); err != nil {
			return nil, err
		}
		if bytes.Equal(key, lastKey) && name == lastName {
			continue // an older version of the same cell
		}
		lastKey, lastName = key, name
		c := cell{key: key}
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&c.body); err != nil {
			return nil, fmt.Errorf("cell %x: %w", key, err)
		}
		cells[name] = append(cells[name], c)
	}
	return cells, rows.Err()
}

// expected formats the row that the table should have for a cell; false if it should have none.
func (t Table) expected(c cell) (string, bool) {
	parts := []string{hex.EncodeToString(c.key)}
	for _, f := range t.Fields {
		v := c.body[f]
		if v == nil {
			if t.Index {
				return "", false
			}
			parts = append(parts, "NULL")
			continue
		}
		switch v := v.(type) {
		case bool:
			parts = append(parts, map[bool]string{true: "1", false: "0"}[v])
		case string:
			if f == "id" {
				v = strings.ReplaceAll(v, "-", "")
			}
			parts = append(parts, v)
		default:
			parts = append(parts, fmt.Sprint(v))
		}
	}
	return strings.Join(parts, " | "), true
}

// held reads the table's rows and formats them as Table.expected does.
func (t Table) held(ctx context.Context, db Querier) (map[string]bool, error) {
	columns := []string{"id"}
	if t.Index {
		columns[0] = "row_key"
	}
	columns = append(columns, t.Fields...)
	rows, err := db.QueryContext(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+t.Name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	held := map[string]bool{}
	values := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		parts := make([]string, len(columns))
		for i, v := range values {
			switch {
			case !v.Valid:
				parts[i] = "NULL"
			case i == 0, columns[i] == "id":
				parts[i] = hex.EncodeToString([]byte(v.String))
			default:
				parts[i] = v.String
			}
		}
		held[strings.Join(parts, " | ")] = true
	}
	return held, rows.Err()
}

func differences(table string, want, got map[string]bool) []string {
	const few = 5
	var out []string
	missing, extra := 0, 0
	for row := range want {
		if !got[row] {
			if missing++; missing <= few {
				out = append(out, fmt.Sprintf("%s: missing %s", table, row))
			}
		}
	}
	for row := range got {
		if !want[row] {
			if extra++; extra <= few {
				out = append(out, fmt.Sprintf("%s: extra %s", table, row))
			}
		}
	}
	if missing+extra > len(out) {
		out = append(out, fmt.Sprintf("%s: %d missing and %d extra in all", table, missing, extra))
	}
	slices.Sort(out)
	return out
}
