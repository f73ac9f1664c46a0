package redis

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"replicator"
)

// compactForm returns the compact form of a record, and the layout that it needs; "" if the record has no compact form.
func compactForm(r *record, entity string) (stored string, known *layouts) {
	layout, values, ok := r.compact(nil, nil, entity)
	if !ok {
		return "", nil
	}
	id := layoutID(string(layout))
	return r.nonce + "\x02" + id + string(values), &layouts{of: map[string]string{id: string(layout)}}
}

func keyOf(t testing.TB, values ...any) replicator.Key {
	t.Helper()
	key, err := replicator.MakeKey(values...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCompactRecordsAreReadAsTheyWereWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 2000 {
		want := randomRecord(r)
		want.revision, want.pending = 0, nil
		entity := randomText(r)
		for i := range want.cells {
			c := &want.cells[i]
			if r.IntN(2) == 0 {
				c.cell.Key = keyOf(t, []any{r.Int64() - r.Int64(), uint64(math.MaxUint64), "a:%b", []byte{1, 2}}[r.IntN(4)], "x")
				entity = c.cell.Key.String()
			}
			for j := range c.views {
				switch v := &c.views[j]; r.IntN(4) {
				case 0:
					v.claims = string(appendClaims(nil, []claim{{kind: kindJSON, key: "row:" + entity, row: &row{}}}))
				case 1:
					v.state = c.views[0].state
				case 2:
					v.state.AsOf = v.state.Order
					v.claims = string(appendClaims(nil, []claim{{kind: kindRanking, key: "top", member: entity, amount: "7"}}))
				}
			}
		}
		stored, known := compactForm(want, entity)
		got, err := new(arena).parseRecord(stored, entity, known)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %+v (%v)\nwritten %+v", got, err, want)
		}
	}
}

func TestTheStoredFormOfACompactRecord(t *testing.T) {
	row := &row{digest: digest([]byte("0123456789abcdef")), whole: true, fields: []field{{"name", "Ann"}, {"city", ""}}}
	claims := func(c ...claim) string { return string(appendClaims(nil, c)) }
	state := replicator.State{Version: 199, Order: 3, AsOf: 3}
	r := &record{nonce: "nonce-12", cells: []cellRecord{{
		cell: replicator.Cell{Table: "cell", Column: "users", Key: keyOf(t, int64(7), "a:b")}, views: []viewRecord{
			{"view-1", 1, state, claims(claim{kind: kindHash, key: "h:7:a:b", row: row})},
			{"view-2", 128, state, claims(claim{kind: kindSet, key: "s:Oslo"}, claim{kind: kindCounter, key: "c", amount: "1"})},
		}}}}
	stored, known := compactForm(r, "7:a:b")
	const layout = "\x01\x04cell\x05users\x02is\x02" +
		"view-1\x01\x02" + "h\x01\x02h:\x00\x02\x04name\x04city" + "\x00" +
		"view-2\x80\x01\x01" + "s\x00\x01\x00\x01\x00" + "c\x00\x01\x00\x01\x011" + "\x00"
	want := "nonce-12\x02" + layoutID(layout) + "\xc8\x01\x03\x00" + "0123456789abcdef" + "\x06s:Oslo" + "\x01c"
	if got, _ := known.get(layoutID(layout)); got != layout || stored != want {
		t.Errorf("it is written as\n%q, want\n%q; its layout is\n%q, want\n%q", stored, want, known.of, layout)
	}
	if _, err := new(arena).parseRecord(stored, "7:a:b", nil); !errors.Is(err, errNoLayout) {
		t.Errorf("without its layout: %v", err)
	}
	if _, err := new(arena).parseRecord(stored+"x", "7:a:b", known); !errors.Is(err, errDamaged) {
		t.Errorf("with more values than the layout takes: %v", err)
	}
}

func TestLayoutsThatOneRecordHasAreNotRegistered(t *testing.T) {
	var p proposals
	now := time.Unix(1000, 0)
	if got := p.repeated([]string{"a", "b"}, now); got != nil {
		t.Errorf("met once: %q", got)
	}
	if got := p.repeated([]string{"a", "c", "c", "a"}, now); !reflect.DeepEqual(got, []string{"a", "c"}) {
		t.Errorf("met twice: %q", got)
	}
}

func TestLayoutsAreRegisteredOnceASecond(t *testing.T) {
	var p proposals
	now, times := time.Unix(1000, 0), 0
	for i := range 100 {
		now = now.Add(100 * time.Millisecond)
		layout := fmt.Sprint(i)
		if p.repeated([]string{layout, layout}, now) != nil {
			times++
		}
	}
	if times < 10 || times > 20 {
		t.Errorf("%d times in ten seconds, want ten in a row, and then one a second", times)
	}
}

func FuzzCompactRecord(f *testing.F) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 20 {
		rec := randomRecord(r)
		rec.revision, rec.pending = 0, nil
		layout, values, _ := rec.compact(nil, nil, "entity")
		f.Add(string(layout), string(values), "entity")
	}
	f.Fuzz(func(t *testing.T, layout, values, entity string) {
		known := &layouts{of: map[string]string{"1234": layout}}
		rec, err := new(arena).parseRecord("nonce-12\x021234"+values, entity, known)
		if err != nil {
			return
		}
		stored, known := compactForm(rec, entity)
		if stored == "" {
			return // its claims are damaged
		}
		again, err := new(arena).parseRecord(stored, entity, known)
		if err != nil || !reflect.DeepEqual(again, rec) {
			t.Fatalf("read %+v, and after it was written, %+v (%v)", rec, again, err)
		}
	})
}
