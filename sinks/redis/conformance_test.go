package redis

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/judge"
	"replicator/sinks/sinktest"
)

func testTables() []replicator.Table {
	return []replicator.Table{
		{Name: "cell", Key: []string{"row_key"}, Column: "column_name", Version: "ref_key"},
		{Name: "fav", Key: []string{"object_id", "user_id"}},
	}
}

func paths(paths ...string) []replicator.Field {
	var out []replicator.Field
	for _, p := range paths {
		out = append(out, replicator.Field{Name: p, Path: p})
	}
	return out
}

// kinds returns views of every kind, by the name of their test. In a template, a path stands in braces; {} is the
// cell's key.
func kinds() map[string][]*replicator.View {
	users, profile := replicator.Feed{Table: "cell", Column: "users"}, replicator.Feed{Table: "cell", Column: "profile"}
	all, fav := replicator.Feed{Table: "cell"}, replicator.Feed{Table: "fav"}
	from := func(f ...replicator.Feed) []replicator.Feed { return f }
	count := replicator.Field{Name: "sum", Path: ""}
	amount := replicator.Field{Name: "sum", Path: "amount"}
	views := map[string][]*replicator.View{
		"hash": {
			{Name: "users", Kind: "hash", From: from(users), Fields: paths("email", "city"), Key: "user:{}"},
			{Name: "people", Kind: "hash", From: from(profile, users), Fields: paths("email", "city"), Key: "person:{}"},
			{Name: "everything", Kind: "hash", From: from(all), Fields: paths("city"), Key: "every:{}"},
		},
		"json": {
			{Name: "users", Kind: "json", From: from(users), Fields: paths("email", "city"), Key: "user:{}"},
			{Name: "people", Kind: "json", From: from(profile, users), Fields: paths("email", "city"), Key: "person:{}"},
		},
		"index": {
			{Name: "by_email", Kind: "index", From: from(users), Fields: paths("email"), Key: "by_email:{email}"},
			{Name: "by_tag", Kind: "index", From: from(users), Fields: paths("tags[]", "city"), Key: "by_tag:{tags[]}:{city}"},
			{Name: "by_city", Kind: "index", From: from(users, profile), Fields: paths("city"), Key: "by_city:{city}"},
			{Name: "cities", Kind: "index", From: from(users, profile), Fields: paths("email", "city"), Key: "cities:{email}",
				Member: "{city}"},
		},
		"unique": {
			{Name: "one", Kind: "index", From: from(users), Fields: paths("email"), Key: "one:{email}",
				Settings: Settings{Unique: true}},
			{Name: "any", Kind: "index", From: from(users, profile), Fields: paths("city"), Key: "any:{city}",
				Settings: Settings{Unique: true}},
		},
		"counter": {
			{Name: "count", Kind: "counter", From: from(fav), Fields: []replicator.Field{{Name: "city", Path: "city"}, count},
				Key: "count:{city}"},
			{Name: "sum", Kind: "counter", From: from(fav, users),
				Fields: []replicator.Field{{Name: "city", Path: "city"}, amount}, Sum: "amount", Key: "sum:{city}"},
		},
		"ranking": {
			{Name: "top", Kind: "ranking", From: from(fav), Fields: []replicator.Field{{Name: "city", Path: "city"}, amount},
				Sum: "amount", Key: "top", Member: "{city}"},
			{Name: "best", Kind: "ranking", From: from(users), Fields: []replicator.Field{{Name: "city", Path: "city"}, amount},
				Sum: "amount", Key: "best:{city}"},
		},
	}
	for _, list := range views {
		for _, v := range list {
			v.Fingerprint = "1"
		}
	}
	return views
}

// render makes a key or member of a template like those of kinds.
func render(template string, v *replicator.View, c replicator.Cell, fields []any) (string, bool) {
	ok := true
	for i, f := range v.Fields {
		if place := "{" + f.Path + "}"; strings.Contains(template, place) {
			ok = ok && fields[i] != nil
			template = strings.ReplaceAll(template, place, replicator.FormatValue(fields[i]))
		}
	}
	return strings.ReplaceAll(template, "{}", c.Key.String()), ok
}

func entry(v *replicator.View, c replicator.Cell, fields []any) (replicator.Entry, bool) {
	key, ok := render(v.Key, v, c, fields)
	e := replicator.Entry{Key: key, Fields: fields}
	if v.Member != "" {
		member, has := render(v.Member, v, c, fields)
		e.Member, ok = member, ok && has
	}
	if v.Kind != "hash" && v.Kind != "json" && slices.Contains(fields, nil) {
		ok = false
	}
	if v.Kind == "ranking" && e.Member == "" {
		e.Member = c.Key.String() // the sink does the same; the suite's model needs to know
	}
	return e, ok
}

// read returns what a view's keys hold, without using the sink.
func read(t testing.TB, rdb redis.UniversalClient, v *replicator.View) map[string]string {
	t.Helper()
	out := map[string]string{}
	name, _, _ := strings.Cut(v.Key, "{")
	for _, key := range keysLike(t, rdb, name+"*") {
		if strings.HasPrefix(key, prefix) {
			continue
		}
		if err := readKey(t, rdb, v, key, out); err != nil {
			t.Fatalf("reading %s: %v", key, err)
		}
	}
	return out
}

func keysLike(t testing.TB, rdb redis.UniversalClient, pattern string) []string {
	t.Helper()
	var keys []string
	var err error
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		keys, err = clusterKeys(t.Context(), cluster, pattern)
	} else {
		keys, err = rdb.Keys(t.Context(), pattern).Result()
	}
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func readKey(t testing.TB, rdb redis.UniversalClient, v *replicator.View, key string, out map[string]string) error {
	ctx := t.Context()
	id := func(member string) string { return sinktest.EntryID([]any{key}, member) }
	row := func(values map[string]string) string {
		fields := make([]any, len(v.Fields))
		for i, f := range v.Fields {
			if value, ok := values[f.Name]; ok {
				fields[i] = value
				delete(values, f.Name)
			}
		}
		if len(values) > 0 {
			return fmt.Sprint("fields that the view doesn't have: ", slices.Sorted(maps.Keys(values)))
		}
		return sinktest.RowText(v, fields)
	}
	switch {
	case v.Kind == "hash":
		values, err := rdb.HGetAll(ctx, key).Result()
		out[key] = row(values)
		return err
	case v.Kind == "json":
		text, err := rdb.Get(ctx, key).Bytes()
		if err != nil {
			return err
		}
		values := map[string]string{}
		err = json.Unmarshal(text, &values)
		out[key] = row(values)
		return err
	case v.Kind == "index" && settingsOf(v).Unique:
		// The sink may show any of those that claim the value. So the suite gets all that claim it, and the one that is
		// shown: if that one claims nothing, it is one too many.
		shown, err := rdb.Get(ctx, key).Result()
		if err != nil {
			return err
		}
		claims, err := rdb.HKeys(ctx, beside(kindUnique, key)).Result()
		for _, member := range append(claims, shown) {
			out[id(member)] = ""
		}
		return err
	case v.Kind == "index":
		members, err := rdb.SMembers(ctx, key).Result()
		for _, m := range members {
			out[id(m)] = ""
		}
		return err
	case v.Kind == "counter":
		n, err := rdb.Get(ctx, key).Result()
		out[id("")] = n
		return err
	case v.Kind == "ranking":
		members, err := rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
		for _, m := range members {
			out[id(m.Member.(string))] = fmt.Sprintf("%.0f", m.Score)
		}
		return err
	}
	return fmt.Errorf("kind %s", v.Kind)
}

func setMark(t testing.TB, rdb redis.UniversalClient, cluster bool, source, view string, at *replicator.Standing) {
	t.Helper()
	for _, key := range (&Sink{cluster: cluster, tags: markTags()}).markKeys(source) {
		if at == nil {
			if err := rdb.HDel(t.Context(), key, view).Err(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		raw, err := rdb.HGet(t.Context(), key, view).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		var m storedMark
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		if err := rdb.HSet(t.Context(), key, view, m.at(*at).encode()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func newSink(t testing.TB, c Config) *Sink {
	t.Helper()
	c.Name = "cache"
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func client(t testing.TB, s *servers.Server) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return rdb
}

func subject(t testing.TB, views []*replicator.View, rdb redis.UniversalClient, c Config) sinktest.Subject {
	bad := map[string]any{}
	switch views[0].Kind {
	case "hash", "json":
		bad["email"] = struct{}{}
	case "counter", "ranking":
		bad["amount"] = "no number"
	default:
		bad = nil
	}
	c.Names, c.Sources = namesOfKinds{}, judge.Sources{Shards: []string{"one", "other", "one/0", "other/0"}}
	return sinktest.Subject{
		Bad:    bad,
		Tables: testTables(), Views: views, Histories: 6, Entry: entry, Remembers: c.Cluster,
		New:  func(t testing.TB) replicator.Sink { return newSink(t, c) },
		Read: func(t testing.TB, v *replicator.View) map[string]string { return read(t, rdb, v) },
		SetMark: func(t testing.TB, source, view string, at *replicator.Standing) {
			setMark(t, rdb, c.Cluster, source, view, at)
		},
		Plant: func(t testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
			plant(t, rdb, v, c, entries)
		},
		Remove: func(t testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
			remove(t, rdb, v, c, entries)
		},
	}
}

// TestConformance runs the suite of all sinks for every kind of view on Redis 7. On the other servers, every kind runs
// the random histories, which use all its commands. Only two kinds run the whole suite there, because servers don't
// differ in the contract.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, kind := range []servers.Kind{servers.Redis7, servers.Redis8, servers.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			for name, views := range kinds() {
				t.Run(name, func(t *testing.T) {
					s := servertest.Own(t, kind)
					run := sinktest.Run
					if kind != servers.Redis7 && name != "index" && name != "ranking" {
						run = sinktest.RunHistories
					}
					run(t, subject(t, views, client(t, s), Config{URLs: []string{s.DSN("0")}}))
				})
			}
		})
	}
}
