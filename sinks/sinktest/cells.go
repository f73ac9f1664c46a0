package sinktest

import (
	"maps"
	"slices"

	"replicator"
)

// spread gives the test new cells: for every feed, one cell of each of n entities, so that every view shows something.
func (f *fixture) spread(n int) {
	f.cells = nil
	for i := range int64(n) {
		for _, feed := range f.s.feeds() {
			key := keyOf(f.s.table(feed.Table), f.base, 1000+i)
			f.cells = append(f.cells, replicator.Cell{Table: feed.Table, Column: feed.Column, Key: key})
		}
	}
}

// entity returns the number of the entity to which a key belongs, or -1 if `spread` did not make the key. f.cells has
// one cell of each feed for the first entity, then for the second, and so on.
func (f *fixture) entity(key replicator.Key) int {
	i := slices.IndexFunc(f.cells, func(c replicator.Cell) bool { return c.Key == key })
	if i < 0 {
		return -1
	}
	return i / len(f.s.feeds())
}

func (f *fixture) of(entity int) []replicator.Cell {
	n := len(f.s.feeds())
	return f.cells[entity*n : (entity+1)*n]
}

// fresh makes n bodies that share no text with each other or with earlier ones. So every view shows each body
// differently, and no two bodies count in the same group of a counter.
func (f *fixture) fresh(n int) []body {
	f.t.Helper()
	bodies := make([]body, n)
	for i := range bodies {
		for tries := 0; bodies[i] == nil; tries++ {
			b := f.body()
			texts := b.texts()
			if slices.ContainsFunc(texts, func(text string) bool { return f.texts[text] }) {
				if tries > 10_000 {
					f.t.Fatalf("Subject.Property generates too few different texts for %d bodies", i+1)
				}
				continue
			}
			for _, text := range texts {
				f.texts[text] = true
			}
			bodies[i] = b
		}
	}
	return bodies
}

func (b body) texts() (texts []string) {
	for _, value := range b {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, v := range list {
			if text, ok := v.(string); ok {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// puts returns a put op for each cell of the entities in `bodies`.
func (f *fixture) puts(version, order int64, bodies map[int]body) []replicator.Op {
	var ops []replicator.Op
	for _, entity := range slices.Sorted(maps.Keys(bodies)) {
		for _, c := range f.of(entity) {
			ops = append(ops, f.put(c, version, order, bodies[entity]))
		}
	}
	return ops
}

// looks returns the ops with which a re-read of the source sets each cell of the entities in `bodies`. For an entity
// with a nil body, the ops say that the source has no row.
func (f *fixture) looks(version, asOf int64, bodies map[int]body) []replicator.Op {
	ops := f.puts(version, 0, bodies)
	for i := range ops {
		if ops[i].AsOf = asOf; bodies[f.entity(ops[i].Cell.Key)] == nil {
			ops[i].Version = replicator.NoVersion
		}
	}
	return ops
}

func (f *fixture) showsOf(when string, bodies map[int]body) {
	f.t.Helper()
	newest := map[replicator.Cell]body{}
	for entity, b := range bodies {
		for _, c := range f.of(entity) {
			newest[c] = b
		}
	}
	f.shows(when, newest)
}

type page[T any] func(after string, limit int) (found []T, next string, err error)

// walk reads all pages of a listing, and calls the function `each` with the items of every page.
func walk[T any](f *fixture, what string, limit int, read page[T], each func([]T)) {
	f.t.Helper()
	const most = 20_000
	for after, pages := "", 0; ; pages++ {
		found, next, err := read(after, limit)
		if err != nil {
			f.t.Fatalf("%s: %v", what, err)
		}
		each(found)
		if after = next; after == "" {
			return
		}
		if pages == most {
			f.t.Fatalf("%s: no end after %d pages", what, most)
		}
	}
}

// cellsOf returns the cells of a listing, each once. limit is the approximate page size.
func (f *fixture) cellsOf(what string, limit int, read page[replicator.Cell]) (all []replicator.Cell) {
	f.t.Helper()
	walk(f, what, limit, read, func(found []replicator.Cell) {
		for _, c := range found {
			if !slices.Contains(all, c) { // a listing may return a cell several times
				all = append(all, c)
			}
		}
	})
	return all
}

func (f *fixture) outdated(before int64) page[replicator.Cell] {
	return func(after string, limit int) ([]replicator.Cell, string, error) {
		return f.target.Outdated(f.t.Context(), before, after, limit)
	}
}

func (f *fixture) held(view int) page[replicator.Cell] {
	return func(after string, limit int) ([]replicator.Cell, string, error) {
		return f.target.Held(f.t.Context(), view, after, limit)
	}
}

// listed returns the cells that have a dead letter in a view. Pages are large, because a sink may search everything it
// knows for each page.
func (f *fixture) listed(view int) []replicator.Cell {
	f.t.Helper()
	return f.cellsOf("Dead", 200, func(after string, limit int) ([]replicator.Cell, string, error) {
		return f.target.Dead(f.t.Context(), view, after, limit)
	})
}
