package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"replicator"
	"replicator/internal/changelog"
	"replicator/sinks/judge"
)

// Target is a set of open views.
type Target struct {
	sink    *Sink
	source  string
	views   []*replicator.View
	keepers []*keeper // keepers[i] writes views[i]
	marks   *judge.Marks
	shares  bool // another target of this process publishes one of the views, with the same producer
}

// byView returns the values of the ops, in one list for each of the target's views.
func (t *Target) byView(ops []replicator.Op) [][]part {
	parts := make([][]part, len(t.views))
	for i := range ops {
		op := &ops[i]
		key := changelog.KeyOf(op.Cell)
		for n := range op.Values {
			v := &op.Values[n]
			parts[v.View] = append(parts[v.View], part{op: i, value: n, of: op, what: v, key: key,
				record: t.sink.record(op.Cell, v)})
		}
	}
	return parts
}

// record makes the record of a value, without its state.
func (s *Sink) record(cell replicator.Cell, v *replicator.Value) *changelog.Record {
	r := &changelog.Record{Cell: cell}
	switch {
	case v.Err != nil:
		r.Dead = v.Err.Error()
	case len(v.Entries) > 0:
		row := *v.Entries[0].Row
		row.Cell = cell
		r.Row, r.Codec = &row, s.cfg.Codecs[cell.Table]
		if fields := v.Entries[0].Fields; len(fields) > 0 {
			r.Body = fields[0]
		}
		if row.Body == nil {
			r.Codec, r.Body = "", nil
		}
	}
	return r
}

// Apply implements replicator.Target, with one transaction for each view.
func (t *Target) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	if t.shares { // canceling a transaction closes its producer, which another target uses, too
		ctx = context.WithoutCancel(ctx)
	}
	batch := judge.NewBatch(ops)
	for view, parts := range t.byView(ops) {
		if len(parts) == 0 {
			continue
		}
		if err := t.keepers[view].apply(ctx, batch, parts); err != nil {
			return replicator.Applied{}, err
		}
	}
	return batch.Applied(), nil
}

// Versions implements replicator.Target. It takes the versions from the newest record of each cell.
func (t *Target) Versions(ctx context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	versions := judge.NewVersions(len(cells))
	for i, v := range t.views {
		var keys [][]byte
		var at []int
		for n, c := range cells {
			if v.Feeds(c) {
				keys, at = append(keys, changelog.KeyOf(c)), append(at, n)
			}
		}
		if err := t.keepers[i].lookUp(ctx, keys, func(n int, _ changelog.Entry, known judge.Known) {
			versions.Add(at[n], known.State.Version)
		}); err != nil {
			return nil, err
		}
	}
	return versions.Spans(), nil
}

// lookUp calls the function `each` once per key, with the cell's newest record and what the sink knows about the cell.
func (k *keeper) lookUp(ctx context.Context, keys [][]byte,
	each func(n int, e changelog.Entry, known judge.Known)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(ctx); err != nil {
		return err
	}
	return k.table.Get(keys, func(n int, e changelog.Entry, ok bool) {
		known := judge.Unseen
		if ok {
			known = k.known(e)
		}
		each(n, e, known)
	})
}

var _ replicator.Shared = (*Target)(nil)

// Foreign implements replicator.Shared. It returns the views whose marks another replicator had changed at the last
// Mark.
func (t *Target) Foreign() []string { return t.marks.Foreign() }

// Mark implements replicator.Target. It checks the marks of all views before it writes any.
func (t *Target) Mark(ctx context.Context, at replicator.Standing) error {
	return t.marks.Mark(at, func(marking *judge.Marking) error {
		raised := make([]replicator.Standing, len(t.keepers))
		for i, k := range t.keepers {
			stood, err := k.stood(ctx)
			if err != nil {
				return err
			}
			if stood == nil {
				return marking.Gone(i)
			}
			if raised[i], err = marking.Raise(i, *stood); err != nil {
				return err
			}
		}
		for i, k := range t.keepers {
			if err := k.saveMark(ctx, raised[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Compare implements replicator.Target. It compares each op's row with the newest record of the op's cell.
func (t *Target) Compare(ctx context.Context, ops []replicator.Op) ([]replicator.Difference, error) {
	var differences []replicator.Difference
	for view, parts := range t.byView(ops) {
		keys := make([][]byte, len(parts))
		for i := range parts {
			keys[i] = parts[i].key
		}
		var wrong error
		err := t.keepers[view].lookUp(ctx, keys, func(n int, e changelog.Entry, known judge.Known) {
			d, err := t.keepers[view].compare(&parts[n], e, known)
			if wrong = errors.Join(wrong, err); d.Kind != "" {
				d.View = view
				differences = append(differences, d)
			}
		})
		if err := errors.Join(err, wrong); err != nil {
			return nil, err
		}
	}
	return differences, nil
}

func (k *keeper) compare(p *part, e changelog.Entry, known judge.Known) (replicator.Difference, error) {
	d := replicator.Difference{Op: p.op, States: []replicator.State{known.State}, Err: p.what.Err}
	want := p.record
	if want.Row != nil {
		probe := *want
		probe.State = replicator.State{Version: p.of.Version, Order: max(p.of.Order, p.of.AsOf), AsOf: p.of.AsOf}
		if recordSize(changelog.EncodeKeyed(p.key, &probe)) > k.topic.largest {
			d.Err, want = errors.New("its record is larger than the topic accepts"), &changelog.Record{}
		}
	}
	held, err := k.held(p.key, e)
	if err != nil {
		return d, err
	}
	if e.Shown {
		d.Held = []replicator.Entry{{Row: held.Row}}
	}
	d.Kind = judge.Difference(want.Row != nil, e.Shown, e.Shown && want.Row != nil && sameRow(want, held))
	if d.Kind == "" && d.Err != nil {
		d.Kind = replicator.Dead
	}
	return d, nil
}

// sameRow reports whether two records hold the same row. Their states may differ.
func sameRow(a, b *changelog.Record) bool {
	x, y := a.Row, b.Row
	if x.ColumnAs != y.ColumnAs || a.Codec != b.Codec || !reflect.DeepEqual(columnsOf(x), columnsOf(y)) {
		return false
	}
	return bytes.Equal(x.Body, y.Body) || a.Codec == "json" && sameJSON(x.Body, y.Body)
}

func columnsOf(r *replicator.Row) map[string]any {
	columns := map[string]any{}
	for i, name := range r.Names {
		columns[name] = r.Columns[i]
	}
	return columns
}

// sameJSON compares documents without the spaces between their parts. A server may space a document differently in the
// binlog and in a table.
func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// cursor is where a listing of cells continues: after Key, in the view with this index.
type cursor struct {
	View int
	Key  []byte
}

// Outdated implements replicator.Target. It lists cells whose last applied op lies before the log position `before`.
func (t *Target) Outdated(
	ctx context.Context, before int64, after string, limit int,
) (cells []replicator.Cell, next string, err error) {
	var at cursor
	if err := judge.At(after, &at); err != nil {
		return nil, "", err
	}
	for ; at.View < len(t.keepers); at = (cursor{View: at.View + 1}) {
		k := t.keepers[at.View]
		page, last, err := k.page(ctx, at.Key, limit-len(cells), func(known judge.Known) bool {
			return known.Outdated(before)
		})
		if err != nil {
			return nil, "", err
		}
		if cells = append(cells, page...); last != nil {
			return cells, judge.Cursor(cursor{at.View, last}), nil
		}
	}
	return cells, "", nil
}

// Dead implements replicator.Target. It lists cells whose newest record says that they are dead letters.
func (t *Target) Dead(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.keepers[view].pages(ctx, after, limit, func(known judge.Known) bool { return known.Dead })
}

// Held implements replicator.Target. It lists cells whose newest record has a row.
func (t *Target) Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	return t.keepers[view].pages(ctx, after, limit, func(known judge.Known) bool { return known.Shown })
}

func (k *keeper) pages(
	ctx context.Context, after string, limit int, wanted func(judge.Known) bool,
) ([]replicator.Cell, string, error) {
	var at cursor
	if err := judge.At(after, &at); err != nil {
		return nil, "", err
	}
	cells, last, err := k.page(ctx, at.Key, limit, wanted)
	if err != nil || last == nil {
		return cells, "", err
	}
	return cells, judge.Cursor(cursor{Key: last}), nil
}

// visited limits the entries that one page reads, so that a page of a large table ends even if it finds few cells.
const visited = 10_000

// page returns the wanted cells after a key, and the key to continue after, or nil at the end. It skips cells that no
// longer feed the view (see Relinquish).
func (k *keeper) page(
	ctx context.Context, after []byte, limit int, wanted func(judge.Known) bool,
) (cells []replicator.Cell, last []byte, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(ctx); err != nil {
		return nil, nil, err
	}
	passed := 0
	var wrong error
	err = k.table.Walk(after, func(key []byte, e changelog.Entry) bool {
		if wanted(k.known(e)) {
			cell, err := changelog.CellOf(key)
			if err != nil {
				wrong = err
				return false
			}
			if k.view.Feeds(cell) {
				cells = append(cells, cell)
			}
		}
		if passed++; len(cells) >= limit || passed >= visited {
			last = bytes.Clone(key)
			return false
		}
		return true
	})
	return cells, last, errors.Join(err, wrong)
}
