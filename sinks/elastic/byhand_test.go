package elastic_test

import (
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/sinks/elastic"
)

// damages are states that a user may have damaged: values of a document's member "_replicator".
var damages = []string{`{"cells": "junk"}`, `{"cells": {"cell.users": {"k": 7}}}`, `{"cells": {"cell.users": "x"}}`,
	`{"cells": {"cell.users": {"k": "AAA=", "v": 1, "o": 1}}}`, `{}`, `[]`, `null`}

// damage overwrites a document with the given fields, such as "name": "x", and a damaged state.
func (b *bench) damage(id, fields, state string) {
	b.t.Helper()
	b.do("PUT", "/"+indexOf(b.view)+"-r1/_doc/"+id+"?refresh=true",
		fmt.Sprintf(`{%s, "_replicator": %s}`, fields, state))
}

// rewrite returns the op that a repair applies: a re-read as of a log position, to be written even if the state says
// that the document already has it.
func rewrite(c replicator.Cell, version, asOf int64, fields ...any) replicator.Op {
	o := reset(c, version, asOf, fields...)
	o.Rewrite = true
	return o
}

func (b *bench) compare(ops ...replicator.Op) string {
	b.t.Helper()
	differences, err := b.target.Compare(b.t.Context(), ops)
	if err != nil {
		b.t.Fatal(err)
	}
	var kinds []string
	for _, d := range differences {
		kinds = append(kinds, string(d.Kind))
	}
	return strings.Join(kinds, ",")
}

// look runs all walks, which must not fail, and returns the strays.
func (b *bench) look() (strays []replicator.Stray) {
	b.t.Helper()
	for name, walk := range map[string]func(string) (string, error){
		"Outdated": func(after string) (string, error) {
			_, next, err := b.target.Outdated(b.t.Context(), 99, after, 10)
			return next, err
		},
		"Held": func(after string) (string, error) {
			_, next, err := b.target.Held(b.t.Context(), 0, after, 10)
			return next, err
		},
		"Strays": func(after string) (string, error) {
			some, next, err := b.target.(replicator.Tidier).Strays(b.t.Context(), 0, after, 10)
			strays = append(strays, some...)
			return next, err
		},
	} {
		for after, first := "", true; first || after != ""; first = false {
			var err error
			if after, err = walk(after); err != nil {
				b.t.Fatalf("%s: %v", name, err)
			}
		}
	}
	return strays
}

// A state that a user damaged counts as unknown. No walk or write fails because of it. A comparison reports it even if
// the fields are right, and the next write replaces the document.
func TestAStateThatSomebodyDamagedIsNothingKnown(t *testing.T) {
	for _, state := range damages {
		t.Run(state, func(t *testing.T) {
			b := newBench(t, "")
			updated, repaired, gone := cellOf(t, "users", 1), cellOf(t, "users", 2), cellOf(t, "users", 3)
			b.apply(op(updated, 50, "a", nil), op(repaired, 50, "b", nil), op(gone, 50, "c", nil))
			b.open() // with an empty memory of documents
			for id, name := range map[string]string{"1": "a", "2": "b", "3": "c"} {
				b.damage(id, `"name": "`+name+`"`, state)
			}
			if strays := b.look(); len(strays) != 3 {
				t.Errorf("strays are %+v", strays)
			}
			versions, err := b.target.Versions(t.Context(), []replicator.Cell{updated})
			if err != nil || versions[0].Lowest != replicator.NoVersion && versions[0].Lowest != 1 {
				t.Errorf("the version is %v (%v)", versions, err)
			}
			if got := b.compare(rewrite(updated, 50, 60, "a", nil)); got != "stale" {
				t.Errorf("compared it is %q", got)
			}
			if a := b.apply(op(updated, 70, "new", nil), rewrite(repaired, 50, 60, "b", nil)); len(a.Stale) > 0 {
				t.Errorf("Apply says %+v", a)
			}
			b.shows("1", `{"name":"new"`)
			b.shows("2", `{"name":"b"`)
			if got := b.compare(rewrite(updated, 70, 80, "new", nil), rewrite(repaired, 50, 80, "b", nil)); got != "" {
				t.Errorf("after the repair it is %q", got)
			}
			strays := b.look()
			if removed, err := b.target.(replicator.Tidier).Tidy(t.Context(), 0, strays); err != nil || removed != 1 {
				t.Errorf("%d of the strays %+v are removed: %v", removed, strays, err)
			}
			b.shows("3", "")
			b.shows("1", `{"name":"new"`)
		})
	}
}

// A damaged state also loses the contributions of the merged document's other cells. A comparison reports them as
// missing, and a repair restores them.
func TestADamagedStateOfAMergedDocumentLosesNothingForGood(t *testing.T) {
	for name, state := range map[string]string{
		"junk": `{"cells": "junk"}`,
		"what one contributes": `{"cells": {"cell.profile": {"k": "aYAAAAAAAAAB", "v": 50, "o": 50, "f": {"name": "a"}},
			"cell.users": {"k": "aYAAAAAAAAAB", "v": 50, "o": 50, "f": {"n": 7}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, `{"dynamic": false}`, "profile", "users")
			profile, users := cellOf(t, "profile", 1), cellOf(t, "users", 1)
			b.apply(op(profile, 50, "a", nil), op(users, 50, nil, exact()))
			b.damage("1", `"name": "a", "n": `+numbers, state)
			b.look()
			whole := []replicator.Op{rewrite(profile, 50, 60, "a", nil), rewrite(users, 50, 60, nil, exact())}
			if got := b.compare(whole...); got != "stale" {
				t.Errorf("compared it is %q", got)
			}
			if name == "junk" {
				b.apply(op(profile, 55, "b", nil))
				b.shows("1", `{"name":"b"`)
				whole[0] = rewrite(profile, 55, 60, "b", nil)
				if got := b.compare(whole...); got != "stale" {
					t.Errorf("without the other cell it is %q", got)
				}
			}
			b.apply(whole...)
			if got := b.compare(whole...); got != "" {
				t.Errorf("after the repair it is %q", got)
			}
		})
	}
}

// A damaged state may claim to be newer than everything in the source. Then neither changes nor repairs apply, because
// a repair must not overwrite what the tail applied meanwhile. So a comparison must report it even if the fields are
// right, and a rebuild corrects it.
func TestAStateFromTheFutureIsFoundAndRebuilt(t *testing.T) {
	const future = `{"k": "aYAAAAAAAAAB", "v": 1000000000000050, "o": 1000000000000050`
	for name, c := range map[string]struct {
		from  []string
		state string
	}{
		"one cell": {[]string{"users"}, `{"cells": {"cell.users": ` + future + `}}}`},
		"merged": {[]string{"profile", "users"}, `{"cells": {"cell.users": ` + future + `, "f": {"name": "a"}},
			"cell.profile": {"k": "aYAAAAAAAAAB", "v": 50, "o": 50, "f": {"n": 5}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, `{"dynamic": false}`, c.from...)
			users := cellOf(t, "users", 1)
			whole := func(version int64, text string) (ops []replicator.Op) {
				if len(c.from) > 1 {
					ops = append(ops, rewrite(cellOf(t, "profile", 1), 50, 90, nil, int64(5)))
				}
				return append(ops, rewrite(users, version, 90, text, nil))
			}
			b.apply(whole(50, "a")...)
			fields := `"name": "a"`
			if len(c.from) > 1 {
				fields += `, "n": 5`
			}
			if got := b.compare(whole(50, "a")...); got != "" {
				t.Errorf("before it is %q", got)
			}
			b.damage("1", fields, c.state)
			b.open() // with an empty memory of documents
			for range 2 {
				if got := b.compare(whole(50, "a")...); got != "stale" {
					t.Errorf("compared it is %q", got)
				}
				if a := b.apply(whole(50, "a")...); len(a.Stale) == 0 {
					t.Errorf("Apply says %+v", a)
				}
			}
			sink := elastic.Shadowing{Sink: b.sink}
			shadow, err := sink.Open(t.Context(), "", []*replicator.View{sink.Shadow(b.view)})
			if err == nil {
				_, err = shadow.Apply(t.Context(), whole(50, "a"))
			}
			if err == nil {
				err = sink.Swap(t.Context(), "", []*replicator.View{b.view})
			}
			if err != nil {
				t.Fatal(err)
			}
			b.open()
			if got := b.compare(whole(50, "a")...); got != "" {
				t.Errorf("rebuilt it is %q", got)
			}
			if a := b.apply(op(users, 95, "b", nil)); len(a.Stale) > 0 {
				t.Errorf("a change after that: %+v", a)
			}
		})
	}
}
