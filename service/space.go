package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"replicator"
	"replicator/config"
)

// What a plan reads of a table for a view, at most.
const (
	probedRows  = 2000
	probedBytes = 4 << 20
	probedTime  = time.Second
)

// probed is what the first rows of a view's tables come to, carried over to all of them.
type probed struct {
	rows    float64 // that a fill scans
	cells   float64 // that feed the view
	entries float64 // of the view
	names   float64 // that they stand under
	bytes   float64 // that the entries hold
	read    int     // rows that were read
	took    float64 // seconds that took
}

// room is what a view takes in its sink, and what the sink remembers of its cells; first: it remembers nothing of them
// yet.
func (p probed) room(r config.Room, merged, first bool) (view, state int64) {
	of := r.More
	if first {
		of = r.State
	}
	kept := 0.0
	if r.Keeps || merged {
		kept = p.bytes
	}
	return int64(p.entries*float64(r.Entry) + p.names*float64(r.Name) + p.bytes), int64(p.cells*float64(of) + kept)
}

// probe reads some rows of each of a view's tables, from offset zero on, as a fill does.
func (p *planner) probe(ctx context.Context, reader replicator.Reader, tables []replicator.Table,
	v *replicator.View) (all probed, err error) {
	evaluator, err := compile(p.Config, []*replicator.View{v}, tables)
	if err != nil {
		return all, err
	}
	for _, table := range replicator.TablesOf([]*replicator.View{v}) {
		total, err := reader.Estimate(ctx, table)
		if err != nil {
			return all, err
		}
		sample := sample{view: v, evaluator: evaluator, seen: map[string]bool{}}
		n, err := sample.read(ctx, reader, table)
		if err != nil {
			return all, err
		}
		if n > 0 {
			total = n
		}
		all.add(sample, float64(total))
	}
	return all, nil
}

// add adds a table of so many rows, by a sample of it.
func (p *probed) add(s sample, rows float64) {
	p.rows += rows
	if s.passed == 0 {
		return
	}
	times := rows / float64(s.passed)
	p.cells += times * float64(s.cells)
	p.entries += times * float64(s.entries)
	p.names += times * float64(s.names)
	p.bytes += times * float64(s.bytes)
	p.read += s.passed
	p.took += s.took.Seconds()
}

// sample is what was seen of a table.
type sample struct {
	view      *replicator.View
	evaluator replicator.Evaluator
	seen      map[string]bool // cells and entries that count once

	passed, cells, entries, names int

	bytes int64
	took  time.Duration
}

// read reads the sample. It returns how many rows the whole scan comes past, 0 if the scan does not tell.
func (s *sample) read(ctx context.Context, reader replicator.Reader, table string) (total int64, err error) {
	columns := columnsFed(s.view, table)
	limit := replicator.ScanLimit{Rows: probedRows / 4, Bytes: probedBytes / 4}
	for after, began := "", time.Now(); ; {
		chunk, err := reader.Scan(ctx, table, columns, after, limit)
		if err != nil {
			return 0, err
		}
		for _, row := range chunk.Rows {
			s.add(row)
		}
		s.passed += chunk.Passed
		s.took, after, total = time.Since(began), chunk.Next, max(total, chunk.Total)
		switch {
		case chunk.Done:
			return int64(s.passed), nil
		case s.passed >= probedRows, s.bytes >= probedBytes, s.took >= probedTime:
			return total, nil
		}
	}
}

// columnsFed are the values of a table's column that feed a view; none: all of them do.
func columnsFed(v *replicator.View, table string) (columns []string) {
	for _, f := range v.From {
		if f.Table == table && f.Column == "" {
			return nil
		}
		if f.Table == table {
			columns = append(columns, f.Column)
		}
	}
	return columns
}

// add adds what a row puts into the view.
func (s *sample) add(row *replicator.Row) {
	if s.first("cell", row.Cell) {
		s.cells++
	}
	for _, value := range s.evaluator.Evaluate(row.Cell, row) {
		for _, e := range value.Entries {
			if s.first("entry", s.identity(row.Cell, e)...) {
				s.entries++
				if s.first("name", e.Key) {
					s.names++
				}
				s.bytes += int64(len(e.Key) + len(e.Member) + len(row.Cell.Key))
				for _, f := range e.Fields {
					s.bytes += heldBytes(f)
				}
			}
		}
	}
}

// identity is what tells an entry from those that stand in the same place: groups of a counter and entities occur
// again.
func (s *sample) identity(c replicator.Cell, e replicator.Entry) []any {
	switch s.view.Kind {
	case "index":
		return []any{c.Key, e.Key, e.Member, e.Fields}
	case "counter", "ranking":
		return []any{e.Key, e.Member, e.Fields[:max(len(e.Fields)-1, 0)]}
	}
	return []any{c.Key}
}

func (s *sample) first(what string, identity ...any) bool {
	id := fmt.Sprintf("%s %q", what, identity)
	known := s.seen[id]
	s.seen[id] = true
	return !known
}

// heldBytes is about what a sink keeps of a field's value.
func heldBytes(value any) int64 {
	switch v := value.(type) {
	case nil:
		return 0
	case string:
		return int64(len(v))
	case []byte:
		return int64(len(v))
	case replicator.Number:
		return int64(len(v))
	case replicator.RawJSON:
		return int64(len(v))
	case []any, replicator.Object:
		return int64(len(replicator.AppendJSON(nil, v)))
	}
	return 8
}

// Where the rate of a planned fill is from.
const (
	RateAsked   = "asked"   // --rate
	RateLimit   = "limit"   // [rebuild] rate
	RateFill    = "fill"    // a fill into the same sink that is under way
	RateReading = "reading" // rows were read and computed no faster than that, just now
	RateAssumed = "assumed"
)

// statedRate is how many rows a second a fill is taken to write where nothing was measured: less than each sink manages
// on the source's own machine.
const statedRate = 20_000

// rate is how many rows a second a fill of a view is taken to write, and where that is from.
func (p *planner) rate(sink string, of probed) (rows float64, from string) {
	if p.asked > 0 {
		return float64(p.asked), RateAsked
	}
	rows, from = statedRate, RateAssumed
	read := float64(of.read) / max(of.took, 1e-9)
	switch now := p.fills(sink); {
	case now > 0:
		rows, from = now, RateFill
	case of.read >= probedRows && read < rows:
		rows, from = read, RateReading
	}
	if limit := float64(p.Config.Rebuild.Rate); limit > 0 && limit < rows {
		return limit, RateLimit
	}
	return rows, from
}

// fills is how many rows a second a fill into a sink scans now; 0: there is none, or it is not known.
func (p *planner) fills(sink string) (rate float64) {
	for _, v := range p.running {
		if v.Sink == sink && v.ETA != nil && *v.ETA > 0 && v.Progress > 0 {
			rate = max(rate, float64(v.FilledRows)*(1/v.Progress-1) / *v.ETA)
		}
	}
	return rate
}

// remembers reports whether the sink of a view knows the view's cells already: another view, that stays or was planned
// before, is made of them.
func (p *planner) remembers(v *replicator.View) bool {
	return !slices.ContainsFunc(v.From, func(f replicator.Feed) bool {
		return !p.known[knownCells{v.Sink, f.Table}]
	})
}

// remember notes that the sink of a view knows its cells.
func (p *planner) remember(v *replicator.View) {
	for _, f := range v.From {
		p.known[knownCells{v.Sink, f.Table}] = true
	}
}

// knownCells are the cells of a table that a sink has states of.
type knownCells struct{ sink, table string }
