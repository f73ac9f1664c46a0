package redis

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// fixture is a sink with views on a server of its own.
type fixture struct {
	server *servers.Server
	rdb    *redis.Client
	sink   *Sink
	target replicator.Target
}

func open(t testing.TB, views ...*replicator.View) *fixture {
	t.Helper()
	s := servertest.Own(t, servers.Redis7)
	f := &fixture{server: s, rdb: client(t, s), sink: newSink(t, Config{URLs: []string{s.DSN("0")}})}
	t.Cleanup(func() {
		if err := f.sink.Close(); err != nil {
			t.Error(err)
		}
	})
	f.target = f.open(t, views...)
	return f
}

func (f *fixture) open(t testing.TB, views ...*replicator.View) replicator.Target {
	t.Helper()
	target, err := f.sink.Open(t.Context(), "", views)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func apply(t testing.TB, target replicator.Target, ops ...replicator.Op) replicator.Applied {
	t.Helper()
	applied, err := target.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func cellOf(t testing.TB, table, column string, key any) replicator.Cell {
	t.Helper()
	k, err := replicator.MakeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return replicator.Cell{Table: table, Column: column, Key: k}
}

// put makes an op with the version and the log position n.
func put(c replicator.Cell, n int64, entries ...replicator.Entry) replicator.Op {
	return replicator.Op{Cell: c, Version: n, Order: n, Values: []replicator.Value{{Entries: entries}}}
}

func feed(table, column string) []replicator.Feed {
	return []replicator.Feed{{Table: table, Column: column}}
}

func view(name, kind, key string, fields ...string) *replicator.View {
	return &replicator.View{Name: name, Kind: kind, Key: key, From: feed("cell", "users"), Fields: paths(fields...),
		Fingerprint: "1"}
}

// cli runs redis-cli, as an operator would.
func (f *fixture) cli(t testing.TB, args ...string) string {
	t.Helper()
	program, err := servers.Program(f.server.Kind, "redis-cli")
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(f.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, append([]string{"-h", host, "-p", port},
		args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestValuesStayExact(t *testing.T) {
	values := []any{int64(9007199254740993), uint64(18446744073709551615),
		replicator.Number("12345678901234567890.123456789"), true,
		"Grüße\x00", []byte("0123456789abcdef"), 0.1, []any{int64(9007199254740993), "a<b"},
		replicator.ObjectOf(map[string]any{"b": replicator.Number("1.50"), "a": nil}), nil}
	names := []string{"int", "uint", "decimal", "bool", "text", "bytes", "float", "list", "object", "missing"}
	want := map[string]string{"int": "9007199254740993", "uint": "18446744073709551615",
		"decimal": "12345678901234567890.123456789", "bool": "true", "text": "Grüße\x00",
		"bytes": "30313233343536373839616263646566", "float": "0.1",
		"list": `[9007199254740993,"a<b"]`, "object": `{"a":null,"b":1.50}`}
	hash, json := view("h", "hash", "h:{k}", names...), view("j", "json", "j:{k}", names...)
	f := open(t, hash, json)
	op := put(cellOf(t, "cell", "users", "x"), 1, replicator.Entry{Key: "h:x", Fields: values})
	op.Values = append(op.Values, replicator.Value{View: 1, Entries: []replicator.Entry{{Key: "j:x", Fields: values}}})
	apply(t, f.target, op)
	got, err := f.rdb.HGetAll(t.Context(), "h:x").Result()
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("the hash holds %v (%v)\nwant %v", got, err, want)
	}
	wantJSON := `{"int":9007199254740993,"uint":18446744073709551615,"decimal":12345678901234567890.123456789,` +
		`"bool":true,"text":"Grüße\u0000",` +
		`"bytes":"30313233343536373839616263646566","float":0.1,"list":[9007199254740993,"a<b"],"object":{"a":null,"b":1.50}}`
	if got := f.cli(t, "GET", "j:x"); got != wantJSON {
		t.Errorf("the JSON is %s\nwant %s", got, wantJSON)
	}
	if got := f.cli(t, "HGET", "h:x", "int"); got != "9007199254740993" {
		t.Errorf("redis-cli shows %s", got)
	}
}

func TestForeignFieldsStay(t *testing.T) {
	f := open(t, view("h", "hash", "h:{k}", "a", "b"))
	c := cellOf(t, "cell", "users", "x")
	if err := f.rdb.HSet(t.Context(), "h:x", "theirs", "1", "b", "left from before").Err(); err != nil {
		t.Fatal(err)
	}
	expect := func(want map[string]string) {
		t.Helper()
		if got, err := f.rdb.HGetAll(t.Context(), "h:x").Result(); err != nil || !maps.Equal(got, want) {
			t.Errorf("the hash holds %v (%v), want %v", got, err, want)
		}
	}
	apply(t, f.target, put(c, 1, replicator.Entry{Key: "h:x", Fields: []any{"1", nil}}))
	expect(map[string]string{"theirs": "1", "a": "1"})
	apply(t, f.target, put(c, 2, replicator.Entry{Key: "h:x", Fields: []any{nil, "2"}}))
	expect(map[string]string{"theirs": "1", "b": "2"})
	apply(t, f.target, put(c, 3))
	expect(map[string]string{"theirs": "1"})
}

func TestUniqueShowsOneOfThoseThatClaim(t *testing.T) {
	v := view("u", "index", "u:{email}")
	v.Settings = Settings{Unique: true}
	f := open(t, v)
	rnd := rand.New(rand.NewPCG(1, 2))
	claims := map[string]string{}
	for n := int64(1); n < 400; n++ {
		entity := fmt.Sprint("e", rnd.IntN(5))
		value := fmt.Sprint("u:", rnd.IntN(3))
		op := put(cellOf(t, "cell", "users", entity), n)
		delete(claims, entity)
		if rnd.IntN(3) > 0 {
			op = put(op.Cell, n, replicator.Entry{Key: value})
			claims[entity] = value
		}
		apply(t, f.target, op)
		for i := range 3 {
			key := fmt.Sprint("u:", i)
			shown, err := f.rdb.Get(t.Context(), key).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
			claimed := false
			for _, value := range claims {
				claimed = claimed || value == key
			}
			if shown == "" && claimed || shown != "" && claims[shown] != key {
				t.Fatalf("after %d ops %s shows %q, but the claims are %v", n, key, shown, claims)
			}
		}
	}
}

func TestAKeyThatIsTooLongIsRejected(t *testing.T) {
	f := open(t, view("u", "index", "u:{a}"))
	long := strings.Repeat("x", maxName)
	a := apply(t, f.target, put(cellOf(t, "cell", "users", "x"), 1, replicator.Entry{Key: "u:" + long}),
		put(cellOf(t, "cell", "users", "y"), 1, replicator.Entry{Key: "u:" + long[3:], Member: "y"}))
	if len(a.Rejected) != 1 || a.Rejected[0].Op != 0 || !strings.Contains(a.Rejected[0].Err.Error(), "may have 65536") {
		t.Errorf("rejected: %v", a.Rejected)
	}
}

func TestAnotherTypeAtTheKeyIsRejected(t *testing.T) {
	unique := view("u", "index", "u:{email}")
	unique.Settings = Settings{Unique: true}
	views := []*replicator.View{view("h", "hash", "h:{k}", "a"), view("j", "json", "j:{k}", "a"),
		view("s", "index", "s:{a}"), unique,
		view("c", "counter", "c:{a}", "n"), view("z", "ranking", "z:{a}", "n")}
	f := open(t, views...)
	good, bad := cellOf(t, "cell", "users", "good"), cellOf(t, "cell", "users", "bad")
	op := func(c replicator.Cell, n int64, suffix string) replicator.Op {
		op := replicator.Op{Cell: c, Version: n, Order: n}
		for i, v := range views {
			op.Values = append(op.Values, replicator.Value{View: i,
				Entries: []replicator.Entry{{Key: v.Name + ":" + suffix, Fields: []any{int64(2)}}}})
		}
		return op
	}
	for i, v := range views {
		if err := f.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: v.Name + ":bad", Values: []any{"f", i}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // both times the values are rejected
		applied := apply(t, f.target, op(good, 1, "good"), op(bad, 1, "bad"))
		if len(applied.Rejected) != len(views) {
			t.Fatalf("%d values were rejected, want %d: %v", len(applied.Rejected), len(views), applied.Rejected)
		}
		for _, r := range applied.Rejected {
			if r.Op != 1 || !strings.Contains(r.Err.Error(), "stream") {
				t.Errorf("rejected: %+v", r)
			}
		}
	}
	for _, v := range views {
		if n := f.rdb.Exists(t.Context(), v.Name+":good").Val(); n != 1 {
			t.Errorf("%s:good was not written", v.Name)
		}
		if got := f.rdb.Type(t.Context(), v.Name+":bad").Val(); got != "stream" {
			t.Errorf("%s:bad is now a %s", v.Name, got)
		}
	}
	for _, v := range views {
		f.rdb.Del(t.Context(), v.Name+":bad")
	}
	if applied := apply(t, f.target, op(bad, 1, "bad")); len(applied.Rejected) > 0 { // as a dead letter is retried
		t.Errorf("rejected although the keys are free: %v", applied.Rejected[0].Err)
	}
	for _, v := range views {
		if n := f.rdb.Exists(t.Context(), v.Name+":bad").Val(); n != 1 {
			t.Errorf("%s:bad was not written when tried again", v.Name)
		}
	}
	if got := f.cli(t, "GET", "c:bad"); got != "2" {
		t.Errorf("the counter shows %s, want 2", got)
	}
}

func TestSumsAreExactDecimals(t *testing.T) {
	f := open(t)
	add := redis.NewScript(library + "\nreturn add(ARGV[1], ARGV[2])")
	rnd := rand.New(rand.NewPCG(3, 4))
	number := func() string {
		digits := func(most int) string {
			b := make([]byte, rnd.IntN(most)+1)
			for i := range b {
				b[i] = "0123456789099"[rnd.IntN(13)]
			}
			return string(b)
		}
		s := digits([]int{3, 14, 15, 16, 40}[rnd.IntN(5)])
		if rnd.IntN(2) == 0 {
			s += "." + digits(20)
		}
		if rnd.IntN(2) == 0 {
			s = "-" + s
		}
		short, err := canonical(s)
		if err != nil {
			t.Fatal(err)
		}
		return short
	}
	for range 3000 {
		a, b := number(), number()
		if rnd.IntN(10) == 0 {
			b = negated(a)
		}
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		want, err := canonical(x.Add(x, y).FloatString(25))
		if err != nil {
			t.Fatal(err)
		}
		got, err := add.Run(t.Context(), f.rdb, nil, a, b).Text()
		if err != nil || got != want {
			t.Fatalf("%s + %s is %s (%v), want %s", a, b, got, err, want)
		}
	}
}

func TestBigAndDecimalSums(t *testing.T) {
	counter, ranking := view("c", "counter", "c:{a}", "n"), view("z", "ranking", "z:{a}", "n")
	ranking.Member = "{a}"
	f := open(t, counter, ranking)
	op := func(key string, n int64, amount any) replicator.Op {
		e := replicator.Entry{Key: "c", Fields: []any{amount}}
		return replicator.Op{Cell: cellOf(t, "cell", "users", key), Version: n, Order: n, Values: []replicator.Value{
			{View: 0, Entries: []replicator.Entry{e}},
			{View: 1, Entries: []replicator.Entry{{Key: "z", Member: "m", Fields: []any{amount}}}}}}
	}
	expect := func(sum, score string) {
		t.Helper()
		if got := f.cli(t, "GET", "c"); got != sum {
			t.Errorf("the counter shows %q, want %q", got, sum)
		}
		if got := f.cli(t, "ZSCORE", "z", "m"); got != score {
			t.Errorf("the score is %q, want %q", got, score)
		}
	}
	apply(t, f.target, op("a", 1, int64(9007199254740993)), op("b", 1, int64(9223372036854775807)))
	expect("9232379236109516800", "9.2323792361095168e+18")
	apply(t, f.target, op("a", 2, replicator.Number("0.1")), op("b", 2, replicator.Number("0.20")))
	expect("0.3", "0.29999999999999999")
	apply(t, f.target, op("c", 1, -0.3))
	if f.rdb.Exists(t.Context(), "c", "replicator:sum:{c}").Val() != 0 {
		t.Error("a counter of zero leaves something")
	}
	if got := f.cli(t, "ZSCORE", "z", "m"); got != "0" {
		t.Errorf("the score is %q, want 0", got)
	}
}

// A counter of zero is removed, but a score of zero stays as long as a cell claims the member.
func TestAMemberOfARankingStaysWithAScoreOfZero(t *testing.T) {
	ranking := view("z", "ranking", "z:{a}", "n")
	ranking.Member = "{a}"
	f := open(t, ranking)
	claim := func(amount any) []replicator.Entry {
		return []replicator.Entry{{Key: "z", Member: "m", Fields: []any{amount}}}
	}
	op := func(key string, version int64, entries []replicator.Entry) replicator.Op {
		return replicator.Op{Cell: cellOf(t, "cell", "users", key), Version: version, Order: version,
			Values: []replicator.Value{{Entries: entries}}}
	}
	steps := []struct {
		what string
		op   replicator.Op
		want string
	}{
		{"claimed with 0", op("a", 1, claim(int64(0))), "0"},
		{"claimed by another with 0", op("b", 1, claim(int64(0))), "0"},
		{"one with 5", op("a", 2, claim(int64(5))), "5"},
		{"the other with -5", op("b", 2, claim(int64(-5))), "0"},
		{"replayed", op("b", 2, claim(int64(-5))), "0"},
		{"the first is gone", op("a", 3, nil), "-5"},
		{"back to 0", op("b", 3, claim(replicator.Number("0.00"))), "0"},
		{"without an amount", op("a", 4, claim(nil)), "0"},
		{"nobody claims it", op("b", 4, nil), ""},
	}
	for _, s := range steps {
		apply(t, f.target, s.op)
		if got := f.cli(t, "ZSCORE", "z", "m"); got != s.want {
			t.Errorf("%s: the score is %q, want %q", s.what, got, s.want)
		}
		differences, err := f.target.Compare(t.Context(), []replicator.Op{s.op})
		if err != nil || len(differences) > 0 {
			t.Errorf("%s: compared: %v, %v", s.what, differences, err)
		}
	}
	if f.rdb.Exists(t.Context(), "z", "replicator:sum:{z}").Val() != 0 {
		t.Error("a member that nobody claims leaves something")
	}
	again := op("c", 1, claim(int64(0)))
	apply(t, f.target, again)
	f.cli(t, "ZREM", "z", "m")
	if differences, err := f.target.Compare(t.Context(), []replicator.Op{again}); err != nil || len(differences) != 1 {
		t.Errorf("a member that was removed by hand: %v, %v", differences, err)
	}
	again.Rewrite = true
	apply(t, f.target, again)
	if got := f.cli(t, "ZSCORE", "z", "m"); got != "0" {
		t.Errorf("repaired: the score is %q, want 0", got)
	}
}

func TestForgottenScriptsAreGivenAgain(t *testing.T) {
	f := open(t, view("s", "index", "s:{a}"))
	for n := range int64(3) {
		f.cli(t, "SCRIPT", "FLUSH")
		apply(t, f.target, put(cellOf(t, "cell", "users", fmt.Sprint(n)), 1, replicator.Entry{Key: "s"}))
		at := replicator.Standing{Position: replicator.Position{Order: n, Token: "x"}}
		if err := f.target.Mark(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.rdb.SCard(t.Context(), "s").Val(); n != 3 {
		t.Errorf("the set has %d members, want 3", n)
	}
}
