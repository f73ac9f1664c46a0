package survey

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// What a sample of a table may take.
const (
	newestRows = 200
	oldestRows = 50
	batchRows  = 25      // of one statement
	maxBody    = 1 << 20 // longer bodies are not read
	maxBytes   = 8 << 20 // of a table's sample; a batch may exceed it
)

// sample reads the newest and the oldest rows of a table along its first unique key. It is an index, mostly the one that the rows
// stand in: as many of its entries are read as rows are wanted. Bodies that are too long don't leave the server.
func (r *reader) sample(ctx context.Context, t *Table) error {
	key := t.Unique[0]
	s := &sampler{reader: r, table: t, key: key, seen: map[string]bool{}}
	t.Values, t.TooLong = map[string][][]byte{}, map[string]int{}
	for i := range t.Columns {
		c := &t.Columns[i]
		if body := c.holdsBody() && !c.Generated; body || c.shortText() && s.inKey(c.Name) || has(key, c.Name) {
			s.columns = append(s.columns, c)
		}
	}
	// The end first: it is what the application writes now.
	if err := s.read(ctx, " DESC", newestRows); err != nil {
		return err
	}
	return s.read(ctx, "", oldestRows)
}

// sampler samples a table.
type sampler struct {
	*reader
	table   *Table
	key     []string  // that the sample follows
	columns []*Column // that are read
	seen    map[string]bool
	bytes   int
}

func (s *sampler) inKey(name string) bool {
	return slices.ContainsFunc(s.table.Unique, func(u []string) bool { return has(u, name) })
}

// read reads up to so many rows from one end, as long as the sample is not too large. Rows that were read from the other end
// count, but not twice.
func (s *sampler) read(ctx context.Context, direction string, most int) error {
	query := s.query(direction)
	for done := 0; done < most && s.bytes < maxBytes; done += batchRows {
		ctx, cancel := context.WithTimeout(ctx, queryTimeout)
		n := 0
		err := s.each(ctx, fmt.Sprintf("%s LIMIT %d OFFSET %d", query, batchRows, done), nil, func(rows *sql.Rows) error {
			n++
			return s.row(rows)
		})
		cancel()
		if err != nil || n < batchRows {
			return err
		}
	}
	return nil
}

// query selects the columns, and of what may be a body its length, and nothing of what is too long.
func (s *sampler) query(direction string) string {
	var list []string
	for _, c := range s.columns {
		q := quoteName(c.Name)
		if c.holdsBody() {
			list = append(list, fmt.Sprintf("IF(OCTET_LENGTH(%s) > %d, NULL, %s)", q, maxBody, q), "OCTET_LENGTH("+q+")")
		} else {
			list = append(list, q)
		}
	}
	order := make([]string, len(s.key))
	for i, name := range s.key {
		order[i] = quoteName(name) + direction
	}
	// Without FORCE INDEX the server may choose to sort all rows.
	return "SELECT " + strings.Join(list, ", ") + " FROM " + quoteName(s.database) + "." + quoteName(s.table.Name) +
		" FORCE INDEX (" + quoteName(s.table.firstIndex) + ") ORDER BY " + strings.Join(order, ", ")
}

func quoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

func (s *sampler) row(rows *sql.Rows) error {
	values := make([]sql.RawBytes, len(s.columns))
	lengths := make([]sql.NullInt64, len(s.columns))
	var into []any
	for i, c := range s.columns {
		if into = append(into, &values[i]); c.holdsBody() {
			into = append(into, &lengths[i])
		}
	}
	if err := rows.Scan(into...); err != nil {
		return err
	}
	var key strings.Builder
	for i, c := range s.columns {
		if has(s.key, c.Name) {
			fmt.Fprintf(&key, "%d %s", len(values[i]), values[i])
		}
	}
	if s.seen[key.String()] {
		return nil
	}
	s.seen[key.String()] = true
	s.table.Rows++
	for i, c := range s.columns {
		var v []byte
		if values[i] != nil {
			v = append([]byte{}, values[i]...)
		} else if lengths[i].Valid {
			s.table.TooLong[c.Name]++
		}
		s.bytes += len(v)
		s.table.Values[c.Name] = append(s.table.Values[c.Name], v)
	}
	return nil
}
