package sinktest

import (
	"maps"
	"slices"

	"replicator"
)

// spread gives the test other cells: of every feed one of each of n entities, so that every view has something to
// show.
func (f *fixture) spread(n int) {
	f.cells = nil
	for i := range int64(n) {
		for _, feed := range f.s.feeds() {
			key := keyOf(f.s.table(feed.Table), f.base, 1000+i)
			f.cells = append(f.cells, replicator.Cell{Table: feed.Table, Column: feed.Column, Key: key})
		}
	}
}

// entity is which of those that were spread a key is of; -1 if of none.
func (f *fixture) entity(key replicator.Key) int {
	i := slices.IndexFunc(f.cells, func(c replicator.Cell) bool { return c.Key == key })
	if i < 0 {
		return -1
	}
	return i / len(f.s.feeds())
}

// of are the cells of an entity.
func (f *fixture) of(entity int) []replicator.Cell {
	n := len(f.s.feeds())
	return f.cells[entity*n : (entity+1)*n]
}

// fresh makes up n bodies that have no text in common, with each other or with an earlier one: no two entities meet in
// a group, and every view tells the bodies apart.
func (f *fixture) fresh(n int) []body {
	f.t.Helper()
	bodies := make([]body, n)
	for i := range bodies {
		for tries := 0; bodies[i] == nil; tries++ {
			b := f.body()
			texts := b.texts()
			if slices.ContainsFunc(texts, func(text string) bool { return f.texts[text] }) {
				if tries > 10_000 {
					f.t.Fatalf("the subject makes up too few values: %d bodies are alike", i+1)
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

// texts are the texts of a body.
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

// puts are ops on all cells of the entities that have a body.
func (f *fixture) puts(version, order int64, bodies map[int]body) []replicator.Op {
	var ops []replicator.Op
	for _, entity := range slices.Sorted(maps.Keys(bodies)) {
		for _, c := range f.of(entity) {
			ops = append(ops, f.put(c, version, order, bodies[entity]))
		}
	}
	return ops
}

// looks are resets of all cells of the entities; one without a body is gone.
func (f *fixture) looks(version, asOf int64, bodies map[int]body) []replicator.Op {
	ops := f.puts(version, 0, bodies)
	for i := range ops {
		if ops[i].AsOf = asOf; bodies[f.entity(ops[i].Cell.Key)] == nil {
			ops[i].Version = replicator.NoVersion
		}
	}
	return ops
}

// showsOf compares the views with what the entities' bodies make.
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

// page reads one page of a walk.
type page[T any] func(after string, limit int) (found []T, next string, err error)

// walk reads page after page to the end, and calls each with what was found on it.
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

// cellsOf are those of a walk, in pages of about a limit, each once.
func (f *fixture) cellsOf(what string, limit int, read page[replicator.Cell]) (all []replicator.Cell) {
	f.t.Helper()
	walk(f, what, limit, read, func(found []replicator.Cell) {
		for _, c := range found {
			if !slices.Contains(all, c) { // one may come several times
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

// listed are the cells that are dead in a view, page by page. Pages are large: a sink may look through all it knows.
func (f *fixture) listed(view int) []replicator.Cell {
	f.t.Helper()
	return f.cellsOf("Dead", 200, func(after string, limit int) ([]replicator.Cell, string, error) {
		return f.target.Dead(f.t.Context(), view, after, limit)
	})
}
