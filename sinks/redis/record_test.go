package redis

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"replicator"
)

func randomText(r *rand.Rand) string {
	b := make([]byte, r.IntN(40))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

func randomClaims(r *rand.Rand) []claim {
	var claims []claim
	for range r.IntN(4) {
		c := claim{kind: "hjsmucz"[r.IntN(7)], key: randomText(r)}
		if c.kind == kindHash || c.kind == kindJSON {
			kept := r.IntN(2) == 0
			c.row = &row{digest: digest([]byte(strings.Repeat("d", digestSize))), kept: kept, whole: kept}
			for range r.IntN(3) {
				f := field{name: randomText(r)}
				if kept {
					f.value = randomText(r)
				}
				c.row.fields = append(c.row.fields, f)
			}
		} else {
			c.member, c.amount = randomText(r), randomText(r)
		}
		claims = append(claims, c)
	}
	return claims
}

func randomRecord(r *rand.Rand) *record {
	rec := &record{nonce: "12345678", revision: r.Uint64()}
	for range r.IntN(4) {
		c := cellRecord{cell: replicator.Cell{Table: randomText(r), Column: randomText(r),
			Key: replicator.Key(randomText(r))}}
		for range r.IntN(4) {
			c.views = append(c.views, viewRecord{id: viewID("view\x00" + string(rune('a'+r.IntN(26)))), generation: r.Uint64(),
				state:  replicator.State{Version: r.Int64N(math.MaxInt64) - 1, Order: r.Int64(), AsOf: r.Int64()},
				claims: string(appendClaims(nil, randomClaims(r)))})
		}
		rec.cells = append(rec.cells, c)
	}
	for range r.IntN(3) {
		p := pending{viewKey: viewKey{"abcdef", 's', randomText(r)}, goes: []goes{asIs, never, 1, 86400000}[r.IntN(4)]}
		for range r.IntN(3) {
			p.args = append(p.args, randomText(r))
		}
		rec.pending = append(rec.pending, p)
	}
	return rec
}

func parseStored(stored string) (*record, error) { return new(arena).parseRecord(stored, "", nil) }

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		want := randomRecord(r)
		stored := string(want.append([]byte(want.nonce)))
		got, err := parseStored(stored)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %+v (%v)\nwritten %+v", got, err, want)
		}
		claims := randomClaims(r)
		if got, err := parseClaims(string(appendClaims(nil, claims))); err != nil || !reflect.DeepEqual(got, claims) {
			t.Fatalf("read %+v (%v)\nwritten %+v", got, err, claims)
		}
	}
}

// A later release must read the records that this one writes.
func TestTheStoredFormOfARecord(t *testing.T) {
	row := &row{digest: digest([]byte("0123456789abcdef")), whole: true, fields: []field{{"name", "Ann"}, {"city", ""}}}
	kept := *row
	kept.kept = true
	claims := func(c ...claim) string { return string(appendClaims(nil, c)) }
	r := &record{revision: 300, cells: []cellRecord{
		{cell: replicator.Cell{Table: "cell", Column: "users", Key: "k\x00"}, views: []viewRecord{
			{"view-1", 1, replicator.State{Version: 200, Order: 3, AsOf: 1 << 40},
				claims(claim{kind: kindHash, key: "h:k", row: row})},
			{"view-2", 128, replicator.Unseen, claims(claim{kind: kindDead, key: "dead"})},
		}},
		{cell: replicator.Cell{Table: "plain", Key: "k"}, views: []viewRecord{
			{"view-3", 2, replicator.State{Version: 0, Order: math.MaxInt64}, claims(claim{kind: kindJSON, key: "j", row: &kept},
				claim{kind: kindRanking, key: "z", member: "m", amount: "-1.5"})},
		}},
	}, pending: []pending{
		{viewKey: viewKey{"view-1", kindSet, "s:k"}, args: []string{"k", "1"}}, {viewKey: viewKey{"view-2", kindCounter, "c"}},
		{viewKey: viewKey{"view-1", kindHash, "h"}, goes: 86400000}, {viewKey: viewKey{"view-1", kindHash, "g"}, goes: never},
	}}
	const stored = "nonce-12\x01\xac\x02\x02" +
		"\x04cell\x05users\x02k\x00\x02" +
		"view-1\x01\xc9\x01\x03\x80\x80\x80\x80\x80\x20\x21" + "h\x03h:k0123456789abcdef\x00\x02\x04name\x04city" +
		"view-2\x80\x01\x00\x00\x00\x08" + "d\x04dead\x00\x00" +
		"\x05plain\x00\x01k\x01" +
		"view-3\x02\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x2e" +
		"j\x01j0123456789abcdef\x01\x02\x04name\x03Ann\x04city\x00" +
		"z\x01z\x01m\x04-1.5" +
		"\x04" + "view-1s\x03s:k\x02\x01k\x011" + "view-2c\x01c\x00" +
		"view-1\xe8\x01h\x81\xb8\x99\x29\x00" + "view-1\xe8\x01g\x00\x00"
	if got := string(r.append([]byte("nonce-12"))); got != stored {
		t.Errorf("it is written as\n%q, want\n%q", got, stored)
	}
	r.nonce = "nonce-12"
	if got, err := parseStored(stored); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("it is read as %+v (%v)", got, err)
	}
	newer := strings.Replace(stored, "nonce-12\x01", "nonce-12\x03", 1)
	if _, err := parseStored(newer); errors.Is(err, errDamaged) || err == nil ||
		!strings.Contains(err.Error(), "use the newer version") {
		t.Errorf("of a newer format: %v", err)
	}
}

// If otherValues is true, the old claims are not read. So it must be false for rows that differ in more than values.
func TestOnlyRowsOfOneKeyAndTheSameNamesDifferInValuesAlone(t *testing.T) {
	one := func(kind byte, key string, sum byte, names ...string) []claim {
		r := &row{digest: digest{sum}}
		for _, name := range names {
			r.fields = append(r.fields, field{name: name})
		}
		return []claim{{kind: kind, key: key, row: r}}
	}
	kept := one(kindHash, "k", 2, "a", "b")
	kept[0].row.kept = true
	was := string(appendClaims(nil, one(kindHash, "k", 1, "a", "b")))
	for _, c := range []struct {
		name string
		is   []claim
		want bool
	}{
		{"other values", one(kindHash, "k", 2, "a", "b"), true},
		{"another key", one(kindHash, "l", 2, "a", "b"), false},
		{"another name", one(kindHash, "k", 2, "a", "c"), false},
		{"a field less", one(kindHash, "k", 2, "a"), false},
		{"another kind", one(kindJSON, "k", 2, "a", "b"), false},
		{"values that are kept", kept, false},
		{"nothing", nil, false},
	} {
		if got := otherValues(was, appendClaims(nil, c.is)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if otherValues("", nil) {
		t.Error("no row has other values")
	}
}

func FuzzRecord(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		rec := randomRecord(r)
		f.Add(string(rec.append([]byte(rec.nonce))))
	}
	f.Fuzz(func(t *testing.T, stored string) {
		rec, err := parseStored(stored)
		if err != nil {
			return
		}
		if again := string(rec.append([]byte(rec.nonce))); again != stored {
			t.Fatalf("%q is read, but written as %q", stored, again)
		}
		for _, c := range rec.cells {
			for _, v := range c.views {
				claims, err := parseClaims(v.claims)
				if err != nil {
					continue
				}
				if again := string(appendClaims(nil, claims)); again != v.claims {
					t.Fatalf("the claims %q are read, but written as %q", v.claims, again)
				}
			}
		}
	})
}

func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "1e3", "12.50", "-.5e-2", "1E400", "00012"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		short, err := canonical(s)
		if err != nil {
			return
		}
		if again, err := canonical(short); err != nil || again != short {
			t.Fatalf("%q becomes %q, which becomes %q (%v)", s, short, again, err)
		}
	})
}

func TestCompanionsShareTheKeysSlot(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	seen := map[string]string{}
	for range 1000 {
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = "ab:{}{}"[r.IntN(7)]
		}
		key := string(b)
		if key == "" {
			continue
		}
		companion := beside(kindCounter, key)
		if slotOf(companion) != slotOf(key) {
			t.Fatalf("%q is in slot %d, %q in %d", key, slotOf(key), companion, slotOf(companion))
		}
		if other, ok := seen[companion]; ok && other != key {
			t.Fatalf("%q belongs to %q and %q", companion, other, key)
		}
		seen[companion] = key
	}
	if got := slotOf("123456789"); got != 12739 { // the reference value of the cluster specification, 0x31C3
		t.Errorf("the slot of 123456789 is %d", got)
	}
}
