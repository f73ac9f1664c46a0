package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// scoring returns a ranking and three other views, and a function that makes an op of a cell. of has members of the
// ranking, each followed by its amount.
func scoring(t *testing.T) (views []*replicator.View, op func(cell string, version int64, of ...any) replicator.Op) {
	ranking := view("z", "ranking", "z", "n")
	ranking.Member = "{a}"
	views = []*replicator.View{view("h", "hash", "h:{k}", "n"), ranking, view("s", "index", "s:{n}"),
		view("c", "counter", "c", "n")}
	return views, func(cell string, version int64, of ...any) replicator.Op {
		o := replicator.Op{Cell: cellOf(t, "cell", "users", cell), Version: version, Order: version,
			Values: []replicator.Value{{View: 0}, {View: 1}, {View: 2}, {View: 3}}}
		for i := 0; i < len(of); i += 2 {
			o.Values[1].Entries = append(o.Values[1].Entries,
				replicator.Entry{Key: "z", Member: of[i].(string), Fields: of[i+1 : i+2]})
		}
		if len(of) > 0 {
			o.Values[0].Entries = []replicator.Entry{{Key: "h:" + cell, Fields: []any{version}}}
			o.Values[2].Entries = []replicator.Entry{{Key: fmt.Sprint("s:", version)}}
			o.Values[3].Entries = []replicator.Entry{{Key: "c", Fields: []any{int64(1)}}}
		}
		return o
	}
}

// TestARowWhoseScoreIsNoDoubleIsADeadLetter covers numbers that ZADD refuses: those that as a double are infinite, or 0
// without being 0. The views go on. Once rows that add to a sum are gone, the sum is right again.
func TestARowWhoseScoreIsNoDoubleIsADeadLetter(t *testing.T) {
	for _, kind := range []servers.Kind{servers.Redis7, servers.Redis8, servers.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			s := servertest.Own(t, kind)
			testScores(t, client(t, s), Config{URLs: []string{s.DSN("0")}})
		})
	}
	t.Run("cluster", func(t *testing.T) {
		_, rdb, c := startCluster(t, servers.Redis7)
		testScores(t, rdb, c)
	})
}

func testScores(t *testing.T, rdb redis.UniversalClient, c Config) {
	sink := newSink(t, c)
	defer sink.Close()
	views, op := scoring(t)
	target, err := sink.Open(t.Context(), "", views)
	if err != nil {
		t.Fatal(err)
	}
	const much = 1.7e308
	steps := []struct {
		what    string
		op      replicator.Op
		refused string // a part of the error
		scores  string
		count   string // what the counter beside it shows
	}{
		{"1e309", op("a", 1, "m", replicator.Number("1e309")), "beyond", "", "1"},
		{"1e-330", op("a", 2, "m", replicator.Number("1e-330")), "too near to 0", "", "1"},
		{"what is a double", op("a", 3, "m", much), "", "m 1.7e+308", "1"},
		{"a sum that is none", op("b", 4, "n", 1.0, "m", much), `"m"`, "m 1.7e+308", "2"},
		{"the same once more", op("b", 5, "m", much, "n", 1.0), `"m"`, "m 1.7e+308", "2"},
		{"a smaller amount", op("b", 6, "m", 1e306, "n", 1.0), "", "n 1 m 1.71e+308", "2"},
		{"too great again", op("b", 7, "m", much), `"m"`, "m 1.7e+308", "2"},
		{"the one that is shown goes", op("a", 8), "", "", "1"},
		{"the other is tried again", op("b", 9, "m", much), "", "m 1.7e+308", "1"},
		{"one that lessens it", op("c", 10, "m", -much), "", "m 0", "2"},
		{"one more", op("a", 11, "m", much), "", "m 1.7e+308", "3"},
		{"what lessened it goes", op("c", 12), "", "m +Inf", "2"},
		{"and another", op("a", 13), "", "m 1.7e+308", "1"},
		{"the last is gone", op("b", 14), "", "", ""},
		{"the smallest", op("a", 15, "m", replicator.Number("3e-320")), "", "m 3e-320", "1"},
		{"a sum that is nearly 0", op("b", 16, "m", replicator.Number("-3.000000001e-320")), "", "m 0", "2"},
	}
	for _, s := range steps {
		a := apply(t, target, s.op)
		switch {
		case len(a.Rejected) == 0 && s.refused == "":
		case len(a.Rejected) != 1 || a.Rejected[0].View != 1 || s.refused == "" ||
			!strings.Contains(a.Rejected[0].Err.Error(), s.refused):
			t.Errorf("%s: rejected are %v, want a reason with %q", s.what, a.Rejected, s.refused)
		}
		var scores []string
		for _, z := range rdb.ZRangeWithScores(t.Context(), "z", 0, -1).Val() {
			scores = append(scores, fmt.Sprint(z.Member, " ", z.Score))
		}
		if got := strings.Join(scores, " "); got != s.scores {
			t.Errorf("%s: the scores are %s, want %s", s.what, got, s.scores)
		}
		if got := rdb.Get(t.Context(), "c").Val(); got != s.count {
			t.Errorf("%s: the counter beside it is %q, want %q", s.what, got, s.count)
		}
		compared, err := target.Compare(t.Context(), []replicator.Op{s.op})
		for _, d := range compared {
			if d.Kind != replicator.Dead || s.refused == "" {
				t.Errorf("%s: compared: %+v", s.what, d)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestARankingIsTakenBackWhereAHashBesideItIsRefused checks that the ranking counts the entity once, although it is
// written twice: with the hash, which is refused, and then without it.
func TestARankingIsTakenBackWhereAHashBesideItIsRefused(t *testing.T) {
	views, op := scoring(t)
	f := open(t, views...)
	f.cli(t, "RPUSH", "h:a", "theirs")
	if a := apply(t, f.target, op("a", 1, "m", int64(2))); len(a.Rejected) != 1 || a.Rejected[0].View != 0 {
		t.Errorf("rejected: %v", a.Rejected)
	}
	if got := f.cli(t, "HGET", "replicator:sum:{z}", "m"); got != "1 2" {
		t.Errorf("what is remembered of the member is %q, want one claim of 2", got)
	}
}
