package redis

import (
	"maps"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/sinktest"
)

// findings returns the level of each finding of Check, by what was checked.
func findings(t *testing.T, c Config, views ...*replicator.View) map[string]replicator.Level {
	t.Helper()
	s := newSink(t, c)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	levels := map[string]replicator.Level{}
	for _, f := range s.Check(t.Context(), views) {
		if (f.Level == replicator.OK) != (f.Fix == "") {
			t.Errorf("%s is %s, with the fix %q", f.What, f.Level, f.Fix)
		}
		if strings.Contains(f.Detail+f.Fix, "secret") {
			t.Errorf("%s shows the password: %s", f.What, f.Detail)
		}
		levels[strings.TrimPrefix(f.What, "sink cache: ")] = f.Level
		t.Log(f)
	}
	return levels
}

func TestCheck(t *testing.T) {
	for _, kind := range []servers.Kind{servers.Redis7, servers.Redis8, servers.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			s := servertest.Own(t, kind, "--appendonly", "yes") // so that Check finds nothing wrong
			rdb := client(t, s)
			v := view("h", "hash", "h:{k}", "a")
			expect := func(c Config, what string, want replicator.Level) {
				t.Helper()
				if got := findings(t, c, v)[what]; got != want {
					t.Errorf("%s is %q, want %q", what, got, want)
				}
			}
			plain := Config{URLs: []string{s.DSN("0")}}
			for what, level := range findings(t, plain, v) {
				if level != replicator.OK {
					t.Errorf("%s is %s on a server as it should be", what, level)
				}
			}
			for _, args := range [][]any{
				{"CONFIG", "SET", "maxmemory", "100mb"}, {"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"},
				{"CONFIG", "SET", "appendonly", "no"},
				{"ACL", "SETUSER", "poor", "on", ">secret", "~*", "+@all", "-hset"},
				{"ACL", "SETUSER", "narrow", "on", ">secret", "~h:*", "+@all"},
				{"ACL", "SETUSER", "other", "on", ">secret", "~replicator:*", "+@all"},
				{"ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "-@dangerous", "+info"},
				{"ACL", "SETUSER", "documented", "on", ">secret", "~*", "+@read", "+@write", "+@scripting",
					"+@transaction",
					"+@connection", "-@dangerous", "+info", "+acl|whoami", "+acl|dryrun"},
			} {
				if err := rdb.Do(t.Context(), args...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			expect(plain, "maxmemory", replicator.Fail)
			if err := rdb.ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err(); err != nil {
				t.Fatal(err)
			}
			expect(plain, "maxmemory", replicator.Warn) // the program's own keys have no expiry
			expect(plain, "persistence", replicator.Warn)
			expect(Config{URLs: plain.URLs, Username: "poor", Password: "secret"}, "permissions", replicator.Fail)
			expect(Config{URLs: plain.URLs, Username: "narrow", Password: "secret"}, "permissions", replicator.Fail)
			expect(Config{URLs: plain.URLs, Username: "other", Password: "secret"}, "view h: permissions", replicator.Warn)
			expect(Config{URLs: plain.URLs, Username: "mute", Password: "secret"}, "permissions", replicator.Warn)
			expect(Config{URLs: plain.URLs, Username: "documented", Password: "secret"}, "permissions", replicator.OK)
			expect(Config{URLs: plain.URLs, Username: "poor", Password: "secret2"}, "connection", replicator.Fail)
			expect(Config{URLs: []string{"redis://127.0.0.1:1/0"}, Password: "secret"}, "connection", replicator.Fail)
		})
	}
}

func TestCommandsThatTheServerDoesNotHaveAreNamed(t *testing.T) {
	s := servertest.Own(t, servers.Redis7, "--rename-command", "EVALSHA", "", "--rename-command", "ZADD", "")
	sink := newSink(t, Config{URLs: []string{s.DSN("0")}})
	defer sink.Close()
	views := []*replicator.View{view("h", "hash", "h:{k}", "a"), view("r", "ranking", "r:{k}", "a")}
	found := map[string]string{}
	for _, f := range sink.Check(t.Context(), views) {
		if f.Level == replicator.Fail {
			found[strings.TrimPrefix(f.What, "sink cache: ")] = f.Detail
		}
	}
	want := map[string]string{"permissions": "the server has no command EVALSHA",
		"view r: permissions": "the server has no command ZADD"}
	if !maps.Equal(found, want) {
		t.Errorf("check says %v", found)
	}
	_, err := sink.Open(t.Context(), "", views)
	if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "EVALSHA") {
		t.Errorf("Open says %v", err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	s := servertest.Own(t, servers.Redis7, "--requirepass", "geheim")
	v := view("s", "index", "s:{a}")
	for name, c := range map[string]Config{
		"no password":    {URLs: []string{s.DSN("0")}},
		"wrong password": {URLs: []string{s.DSN("0")}, Password: "wrong-secret"},
	} {
		t.Run(name, func(t *testing.T) {
			sink := newSink(t, c)
			defer func() {
				if err := sink.Close(); err != nil {
					t.Error(err)
				}
			}()
			_, err := sink.Open(t.Context(), "", []*replicator.View{v})
			if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "password") ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	t.Run("no memory", func(t *testing.T) {
		f := open(t, v)
		f.cli(t, "CONFIG", "SET", "maxmemory", "1")
		_, err := f.target.Apply(t.Context(), []replicator.Op{put(cellOf(t, "cell", "users", "x"), 1,
			replicator.Entry{Key: "s"})})
		if err == nil || replicator.IsFatal(err) || !strings.Contains(err.Error(), "maxmemory") {
			t.Errorf("the error is %v", err)
		}
		f.cli(t, "CONFIG", "SET", "maxmemory", "0")
		apply(t, f.target, put(cellOf(t, "cell", "users", "x"), 1, replicator.Entry{Key: "s"}))
	})
	t.Run("what a full server holds is looked at", func(t *testing.T) {
		f := open(t, v)
		op := put(cellOf(t, "cell", "users", "x"), 1, replicator.Entry{Key: "s"})
		apply(t, f.target, op)
		f.cli(t, "CONFIG", "SET", "maxmemory", "1")
		defer f.cli(t, "CONFIG", "SET", "maxmemory", "0")
		differences, err := f.open(t, v).Compare(t.Context(), []replicator.Op{op})
		if err != nil || len(differences) > 0 {
			t.Errorf("Compare says %v, %v", differences, err)
		}
		if level := findings(t, Config{URLs: []string{f.server.DSN("0")}}, v)["maxmemory"]; level != replicator.Fail {
			t.Errorf("of its memory check says %s", level)
		}
	})
	t.Run("a command is not permitted", func(t *testing.T) {
		f := open(t, v)
		f.cli(t, "ACL", "SETUSER", "default", "-sadd")
		_, err := f.target.Apply(t.Context(), []replicator.Op{put(cellOf(t, "cell", "users", "x"), 1,
			replicator.Entry{Key: "s"})})
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "permission") {
			t.Errorf("the error is %v", err)
		}
		if n := f.rdb.Exists(t.Context(), "replicator:entity::x").Val(); n != 0 {
			t.Error("the record claims what was never done")
		}
		if _, err := f.sink.Open(t.Context(), "", []*replicator.View{v}); !replicator.IsFatal(err) ||
			!strings.Contains(err.Error(), "sadd") {
			t.Errorf("Open says %v", err)
		}
	})
}

// Open refuses only the views that can't be kept, or that the user lacks permissions for. Check says so in the same
// words.
func TestAViewThatCannotBeKeptIsRefusedByItself(t *testing.T) {
	s := servertest.Own(t, servers.Redis7)
	if err := client(t, s).Do(t.Context(), "ACL", "SETUSER", "default", "-zadd").Err(); err != nil {
		t.Fatal(err)
	}
	well := view("well", "hash", "h:{k}", "a")
	for _, bad := range []*replicator.View{
		view("ranking", "ranking", "r:{k}", "a"),
		view("kind", "row", "k:{k}", "a"),
		view("keyless", "hash", "", "a"),
	} {
		t.Run(bad.Name, func(t *testing.T) {
			sink := newSink(t, Config{URLs: []string{s.DSN("0")}})
			defer sink.Close()
			views := []*replicator.View{well, bad, view("kind2", "row", "k:{k}", "a")}
			_, err := sink.Open(t.Context(), "", views)
			if !replicator.IsFatal(err) {
				t.Fatalf("Open says %v", err)
			}
			sinktest.Refuses(t, err, views, bad.Name, "kind2")
			for _, f := range sink.Check(t.Context(), views) {
				if (f.Level == replicator.Fail) != (strings.HasPrefix(f.What, "view "+bad.Name) ||
					strings.HasPrefix(f.What, "view kind2")) {
					t.Errorf("Check says %+v", f)
				}
				if f.Level == replicator.Fail && !strings.Contains(err.Error(), f.Detail) {
					t.Errorf("Check says %q, Open %q", f.Detail, err)
				}
			}
		})
	}
}

// If one of an entity's changes fails, the earlier ones must not count twice when they, or those of a newer version,
// are made later.
func TestAnEntityThatFailsMidwayCountsNothing(t *testing.T) {
	counter, ranking := view("counter", "counter", "c:{a}", "n"), view("ranking", "ranking", "z", "n")
	members, last := view("members", "index", "m"), view("last", "ranking", "last", "n")
	ranking.Member, members.Member, last.Member = "{a}", "{a}", "{a}"
	for _, c := range []struct {
		what       string
		deny, mend []string
	}{
		{"ZADD is not permitted", []string{"ACL", "SETUSER", "default", "-zadd"},
			[]string{"ACL", "SETUSER", "default", "+zadd"}},
		{"SET and DEL are not permitted", []string{"ACL", "SETUSER", "default", "-set", "-del"},
			[]string{"ACL", "SETUSER", "default", "+set", "+del"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := open(t, counter, ranking, members, last)
			entry := func(key, member string, n int64) replicator.Entry {
				return replicator.Entry{Key: key, Member: member, Fields: []any{n}}
			}
			op := func(key string, version, n int64) replicator.Op {
				o := replicator.Op{Cell: cellOf(t, "cell", "users", key), Version: version, Order: version,
					Values: make([]replicator.Value, 4)}
				for i := range o.Values {
					o.Values[i].View = i
				}
				if n > 0 {
					o.Values[0].Entries = []replicator.Entry{{Key: "c", Fields: []any{n}}}
					o.Values[1].Entries = []replicator.Entry{entry("z", "x", n), entry("z", "y", n)}
					o.Values[2].Entries = []replicator.Entry{{Key: "m", Member: "x"}, {Key: "m", Member: key}}
					o.Values[3].Entries = []replicator.Entry{entry("last", "x", n)}
				}
				return o
			}
			apply(t, f.target, op("a", 1, 5), op("b", 1, 3))
			f.cli(t, c.deny...)
			for _, o := range []replicator.Op{op("a", 2, 6), op("d", 2, 70)} {
				for range 2 {
					if _, err := f.target.Apply(t.Context(), []replicator.Op{o}); err == nil {
						t.Fatal("it was applied")
					}
				}
			}
			f.cli(t, c.mend...)
			apply(t, f.target, op("a", 2, 6), op("d", 3, 0))
			if got := f.cli(t, "GET", "c"); got != "9" {
				t.Errorf("the counter shows %s, want 9", got)
			}
			for _, member := range [][2]string{{"z", "x"}, {"z", "y"}, {"last", "x"}} {
				if got := f.cli(t, "ZSCORE", member[0], member[1]); got != "9" {
					t.Errorf("the ranking %s shows %s of %s, want 9", member[0], got, member[1])
				}
			}
			if got := strings.Fields(f.cli(t, "SORT", "m", "ALPHA")); strings.Join(got, " ") != "a b x" {
				t.Errorf("the members are %q", got)
			}
		})
	}
}

// A sum that another program damaged is removed, and counts as evicted, so that the pipeline compares the views.
func TestADamagedSumCountsAsEvicted(t *testing.T) {
	for what, damage := range map[string][][]string{
		"another type":                 {{"DEL", "replicator:sum:{z}"}, {"SET", "replicator:sum:{z}", "x"}},
		"a ranking's sum is no number": {{"HSET", "replicator:sum:{z}", "x", "8"}},
		"a ranking's amount is none":   {{"HSET", "replicator:sum:{z}", "x", "2 eight"}},
		"a counter's sum is no number": {{"SET", "replicator:sum:{c}", "eight"}},
	} {
		t.Run(what, func(t *testing.T) {
			ranking := view("ranking", "ranking", "z", "n")
			ranking.Member = "{a}"
			f := open(t, view("counter", "counter", "c:{a}", "n"), ranking)
			op := func(version, n int64) replicator.Op {
				return replicator.Op{Cell: cellOf(t, "cell", "users", "a"), Version: version, Order: version,
					Values: []replicator.Value{{View: 0, Entries: []replicator.Entry{{Key: "c", Fields: []any{n}}}},
						{View: 1, Entries: []replicator.Entry{{Key: "z", Member: "x", Fields: []any{n}}}}}}
			}
			apply(t, f.target, op(1, 5))
			for _, command := range damage {
				f.cli(t, command...)
			}
			apply(t, f.target, op(2, 6))
			if n := f.target.(replicator.Evicter).Evicted(); n == 0 {
				t.Error("the pipeline is not told")
			}
		})
	}
}
