package survey

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/sqlname"
)

const (
	newestRows = 200
	oldestRows = 50
	places     = 8         // the number of positions that are sampled between the lowest and the highest key
	placeRows  = 25        // the rows to read at each position between the lowest and the highest key
	batchRows  = 25        // the rows that one statement reads
	maxBody    = 256 << 10 // longer bodies are not read
	maxBytes   = 4 << 20   // the size of one table's sample, which the last batch may exceed
	maxTotal   = 128 << 20 // the size of all samples; after that, each further table gets one batch
	maxTime    = 20 * time.Second
)

// sample reads the newest and the oldest rows of a table along its first unique key. This key is an index, usually the
// clustered one, so the server reads only as many entries as rows are wanted. The server doesn't send bodies that are
// too long.
func (r *reader) sample(ctx context.Context, t *Table) error {
	key := t.Unique[0]
	s := &sampler{reader: r, table: t, key: key, seen: map[string]bool{},
		limit: max(min(maxBytes, maxTotal-r.sampled), 1), until: time.Now().Add(maxTime)}
	t.Values, t.TooLong = map[string][][]byte{}, map[string]int{}
	for i := range t.Columns {
		c := &t.Columns[i]
		body := c.holdsBody() && !c.Generated
		if body || c.tells() || c.shortText() && s.inKey(c.Name) || has(key, c.Name) || has(r.also, c.Name) ||
			slices.Contains(r.also, "*") {
			s.columns = append(s.columns, c)
		}
	}
	err := s.all(ctx)
	r.sampled += s.bytes
	if answer := (*mysql.MySQLError)(nil); errors.As(err, &answer) && t.Rows > 0 {
		return nil // after a timeout, for example, the rows that were read are enough
	}
	return err
}

// all reads the whole sample, the newest rows first, because they show what the application writes now.
func (s *sampler) all(ctx context.Context) error {
	if err := s.read(ctx, part{direction: " DESC", rows: newestRows}); err != nil {
		return err
	}
	if err := s.read(ctx, part{rows: oldestRows}); err != nil {
		return err
	}
	return s.between(ctx)
}

// part is a part of a sample: the rows with the lowest keys, those with the highest keys, or some in between.
type part struct {
	from      string // the WHERE clause of the query; "": the part begins at the lowest or the highest key
	direction string
	rows      int
}

// between reads a few rows at positions between the lowest and the highest key, if the key is a number. Rare kinds of
// rows may be at neither end.
func (s *sampler) between(ctx context.Context) error {
	if len(s.key) != 1 || !s.table.col(s.key[0]).integer() || s.table.Rows < newestRows {
		return nil
	}
	key := sqlname.Quote(s.key[0])
	var ends [2]big.Int
	err := s.each(ctx, "SELECT MIN("+key+"), MAX("+key+") FROM "+s.from(), nil, func(rows *sql.Rows) error {
		var least, greatest string
		if err := rows.Scan(&least, &greatest); err != nil {
			return err
		}
		ends[0].SetString(least, 10)
		ends[1].SetString(greatest, 10)
		return nil
	})
	if err != nil {
		return err
	}
	step := new(big.Int).Sub(&ends[1], &ends[0])
	step.Div(step, big.NewInt(places+1))
	for place := ends[0].Add(&ends[0], step); place.Cmp(&ends[1]) < 0 && step.Sign() > 0; place.Add(place, step) {
		if err := s.read(ctx, part{from: " WHERE " + key + " >= " + place.String(), rows: placeRows}); err != nil {
			return err
		}
	}
	return nil
}

type sampler struct {
	*reader
	table   *Table
	key     []string // the unique key in whose order the sample is read
	columns []*Column
	seen    map[string]bool
	bytes   int
	limit   int // the size limit of this sample, in bytes
	until   time.Time
}

func (s *sampler) inKey(name string) bool {
	return slices.ContainsFunc(s.table.Unique, func(u []string) bool { return has(u, name) })
}

// read reads a part of the sample, up to the size limit. It doesn't count rows that were read before.
func (s *sampler) read(ctx context.Context, p part) error {
	query := s.query(p)
	for done := 0; done < p.rows && s.bytes < s.limit && time.Now().Before(s.until); done += batchRows {
		n := 0
		err := s.each(ctx, fmt.Sprintf("%s LIMIT %d OFFSET %d", query, batchRows, done), nil, func(rows *sql.Rows) error {
			n++
			return s.row(rows)
		})
		if err != nil || n < batchRows {
			return err
		}
	}
	return nil
}

// query selects the columns. For a column that may hold bodies, it also selects the length, and omits a value that is
// too long.
func (s *sampler) query(p part) string {
	var list []string
	for _, c := range s.columns {
		q := sqlname.Quote(c.Name)
		if c.holdsBody() {
			list = append(list, fmt.Sprintf("IF(OCTET_LENGTH(%s) > %d, NULL, %s)", q, maxBody, q), "OCTET_LENGTH("+q+")")
		} else {
			list = append(list, q)
		}
	}
	order := make([]string, len(s.key))
	for i, name := range s.key {
		order[i] = sqlname.Quote(name) + p.direction
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + s.from() + p.from + " ORDER BY " + strings.Join(order, ", ")
}

// from returns the FROM clause. FORCE INDEX makes the server read along the key; otherwise it may choose to sort all
// rows.
func (s *sampler) from() string {
	return sqlname.Quote(s.database) + "." + sqlname.Quote(s.table.Name) + " FORCE INDEX (" +
		sqlname.Quote(s.table.firstIndex) + ")"
}

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
			s.bytes += maxBody // the server has read the value, although it did not send it
		}
		s.bytes += len(v)
		s.table.Values[c.Name] = append(s.table.Values[c.Name], v)
	}
	return nil
}
