package main

import (
	"hash/crc32"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/internal/lab"
	"replicator/internal/launch"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// A few runs with different faults, so that `go test` also finds what this command finds.
func TestRunsThatAreHurtEndRight(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and hurts it")
	}
	f := &farm{
		source: map[servers.Kind]*servers.Server{servers.MariaDB1011: servertest.Own(t, servers.MariaDB1011, "--log-slave-updates")},
		main:   map[servers.Kind]*servers.Server{servers.MariaDB1011: servertest.Own(t, servers.MariaDB1011, "--log-slave-updates")},
		cache:  map[servers.Kind]*servers.Server{servers.Redis7: servertest.Own(t, servers.Redis7, cacheArgs...)},
	}
	binary := filepath.Join(t.TempDir(), "replicator")
	if err := launch.Build(t.Context(), binary); err != nil {
		t.Fatal(err)
	}
	some := func(runs uint64, c Choices) func(t *testing.T) {
		c.Sources, c.Writes = []servers.Kind{servers.MariaDB1011}, 120
		return func(t *testing.T) {
			for seed := range runs {
				p := planOf(seed, c)
				outcome, err := run(t.Context(), f, p, binary, 10*time.Minute, t.Logf)
				if err != nil {
					t.Fatalf("seed %d, %v: %v", seed, p.Faults, err)
				}
				if len(outcome.Wrong) > 0 {
					t.Fatalf("seed %d, %v:\n%s\n%s", seed, p.Faults, strings.Join(outcome.Wrong, "\n"), outcome.Log)
				}
			}
		}
	}
	t.Run("the program keeps the views", some(5, Choices{}))
	f.brokers = append(f.brokers, servertest.Own(t, servers.Kafka))
	t.Run("members keep them through Kafka", some(2, Choices{Brokers: 1,
		Faults: []string{"kill", "late second", "member killed", "member leaves", "broker killed"}}))
	t.Run("a compacted topic gives the same views", some(1, Choices{Brokers: 1, Faults: []string{"members anew"}}))
}

func TestAPlanIsAFunctionOfItsSeed(t *testing.T) {
	choices := Choices{Sources: servers.SourceKinds(), Search: servers.Elasticsearch}
	joined, has := 0, map[string]int{"a pattern": 0, "keys that expire": 0, "a table of somebody's own": 0, "a forest": 0}
	for seed := range uint64(200) {
		p := planOf(seed, choices)
		if !reflect.DeepEqual(p, planOf(seed, choices)) {
			t.Fatalf("seed %d gives two plans", seed)
		}
		few := planOf(seed, Choices{Sources: choices.Sources, Faults: []string{"second"}}) // fits only one store
		through := planOf(seed, Choices{Sources: choices.Sources, Search: servers.Elasticsearch, Brokers: 3})
		if p.joins() {
			joined++
		}
		if p.Tables[0].Pattern {
			has["a pattern"]++
		}
		if slices.ContainsFunc(p.Views, func(v View) bool { return v.Expire != "" }) {
			has["keys that expire"]++
		}
		if slices.ContainsFunc(p.Views, func(v View) bool { return v.Copy }) {
			has["a table of somebody's own"]++
		}
		if p.Forest {
			has["a forest"]++
		}
		if through.joins() {
			t.Errorf("seed %d: rows that go through Kafka are joined", seed)
		}
		for _, sink := range []string{"main", "cache", "search"} {
			if !slices.Contains(through.sinks(), sink) {
				t.Errorf("seed %d: no view in %s", seed, sink)
			}
		}
		if len(p.Faults) == 0 || len(p.Views) == 0 || len(few.Faults) == 0 {
			t.Fatalf("seed %d: %d faults, %d views", seed, len(p.Faults), len(p.Views))
		}
	}
	for what, seeds := range has {
		if seeds < 10 {
			t.Errorf("%d of 200 seeds have %s", seeds, what)
		}
	}
	if joined < 20 {
		t.Errorf("%d of 200 seeds have joined views", joined)
	}
}

// A planted bug's original text must be in the named file. Otherwise nothing would be planted.
func TestPlantedBugsFitTheirFiles(t *testing.T) {
	known := faults()
	for _, p := range plants() {
		if _, err := p.overlay("..", t.TempDir()); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		for _, name := range p.faults {
			if _, ok := known[name]; !ok {
				t.Errorf("%s: there is no fault %q", p.name, name)
			}
		}
	}
}

// The patch of the clock must fit the standard library's time.go.
func TestClocksCanBeMadeToJump(t *testing.T) {
	if _, err := skewedClock(t.Context(), "..", t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestTheModelKnowsWhatViewsHold(t *testing.T) {
	cell := Table{Name: "t", Shape: cells, Key: intKey}
	of := []entity{
		{shown: "1", columns: map[string]fields{"main": {"n": "9", "grp": "a", "amount": "60"}, "more": {"city": "x"}}},
		{shown: "2", columns: map[string]fields{"main": nil, "more": {"city": "y"}}},
		{shown: "3", columns: map[string]fields{"main": {"n": "8", "email": "e", "grp": "a", "amount": "-60"}}},
	}
	for _, c := range []struct {
		view View
		want lab.Held
	}{
		{View{Kind: "row"}, lab.Held{"1": "n=9 grp=a amount=60 ", "3": "n=8 email=e grp=a amount=-60 "}},
		{View{Kind: "row", Merged: true}, lab.Held{"1": "n=9 grp=a amount=60 city=x ", "2": "city=y ",
			"3": "n=8 email=e grp=a amount=-60 "}},
		{View{Kind: "hash", Where: true}, lab.Held{"1": "n=9 grp=a amount=60 "}},
		{View{Kind: "index"}, lab.Held{"e 3": ""}},
		{View{Kind: "counter"}, lab.Held{}},
		{View{Kind: "ranking"}, lab.Held{"a": "0"}},
		{View{Kind: "counter", Where: true}, lab.Held{"a": "60"}},
	} {
		if got := c.view.expect(cell, of); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, not %v", c.view, got, c.want)
		}
	}
	joined := Table{Name: "t", Shape: rows, Key: intKey, Joined: true}
	of = []entity{{shown: "1", columns: map[string]fields{"": {"n": "9", "label": "7", "peers": "2"}}}}
	for kind, want := range map[string]string{"hash": "n=9 label=7 peers=2 ", "json": "n=9 label=7 "} {
		if got := (View{Kind: kind}).expect(joined, of); !reflect.DeepEqual(got, lab.Held{"1": want}) {
			t.Errorf("%s with joined rows: %v, not %q", kind, got, want)
		}
	}
}

// Connections that fell silent stay silent. Connections that are opened later work.
func TestALinkThatFellSilentPassesNothing(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	k, err := newLink(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	echoes := func(c net.Conn) bool {
		_, _ = c.Write([]byte("x"))
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		return err == nil
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", k.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	before := dial()
	if !echoes(before) {
		t.Fatal("a link that nobody hurt passes nothing")
	}
	k.hurt("silent")
	during := dial()
	if echoes(before) || echoes(during) {
		t.Error("a silent link passes something")
	}
	k.hurt("")
	if echoes(before) || echoes(during) {
		t.Error("what fell silent speaks again")
	}
	if !echoes(dial()) {
		t.Error("a link that was healed passes nothing")
	}
	k.hurt("refuse")
	if echoes(dial()) {
		t.Error("a link that refuses passes something")
	}
}

// A tap passes held data on in order once it is released. Meanwhile, other connections and the other direction pass
// data.
func TestATapHoldsWhatHasItsText(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	k, err := newLink(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	var clients, ends [2]net.Conn
	for i := range clients {
		if clients[i], err = net.Dial("tcp", k.address()); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
		if ends[i], err = server.Accept(); err != nil {
			t.Fatal(err)
		}
		defer ends[i].Close()
	}
	write := func(to net.Conn, text string) {
		t.Helper()
		if _, err := io.WriteString(to, text); err != nil {
			t.Fatal(err)
		}
	}
	comes := func(to net.Conn, want string) {
		t.Helper()
		b := make([]byte, len(want))
		_ = to.SetReadDeadline(time.Now().Add(10 * time.Minute))
		if _, err := io.ReadFull(to, b); err != nil || string(b) != want {
			t.Errorf("%q came, not %q: %v", b, want, err)
		}
	}
	counts := k.put(&tap{toServer: true, text: []byte("late")})
	holds := k.put(&tap{toServer: true, text: []byte("late"), free: make(chan struct{})})
	write(clients[0], "too late")
	if err := holds.passes(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	write(clients[0], ", and more")
	write(clients[1], "early")
	comes(ends[1], "early")
	write(ends[0], "too late")
	comes(clients[0], "too late")
	write(ends[0], "!")
	comes(clients[0], "!")
	k.letGo()
	comes(ends[0], "too late, and more")
	write(clients[1], "late")
	comes(ends[1], "late")
	if counts.seen.Load() != 2 || holds.seen.Load() != 1 {
		t.Errorf("it passed %d times, and was held %d times", counts.seen.Load(), holds.seen.Load())
	}
}

func TestSmallerPlansLackOneThing(t *testing.T) {
	p := Plan{Writes: 100, Faults: []Fault{{Name: "a"}, {Name: "b"}}, Views: []View{{Name: "v"}}}
	got := shrunk(p)
	if len(got) != 3 || len(got[0].Faults) != 1 || got[0].Faults[0].Name != "b" || got[2].Writes != 50 ||
		len(p.Faults) != 2 {
		t.Errorf("%+v", got)
	}
}

// If all groups led to one shard, no row would move between shards.
func TestWhatDecidesAShardLeadsToBoth(t *testing.T) {
	in := map[uint32]int{}
	for _, g := range groups {
		in[crc32.ChecksumIEEE([]byte(g))%2]++
	}
	if in[0] != 2 || in[1] != 2 {
		t.Errorf("of the groups %v lie in the shards", in)
	}
}
