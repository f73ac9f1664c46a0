package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/sinktest"
)

// permittedViews returns four views, and an op of cell n that all of them show.
func permittedViews(t *testing.T) (views []*replicator.View, op func(n int64) replicator.Op) {
	index, ranking := view("index", "index", "by:{a}"), view("ranking", "ranking", "rank", "n")
	index.Member, ranking.Member = "{a}", "{a}"
	views = []*replicator.View{view("hash", "hash", "h:{k}", "a"), ranking, index,
		view("counter", "counter", "c:{a}", "n")}
	return views, func(n int64) replicator.Op {
		o := put(cellOf(t, "cell", "users", "1"), n)
		for i, e := range []replicator.Entry{
			{Key: "h:1", Fields: []any{"x"}}, {Key: "rank", Member: "x", Fields: []any{n}},
			{Key: fmt.Sprint("by:geheim", n), Member: "x"}, {Key: "c:x", Fields: []any{n}},
		} {
			if i > 0 {
				o.Values = append(o.Values, replicator.Value{View: i})
			}
			o.Values[i].Entries = []replicator.Entry{e}
		}
		return o
	}
}

// setUser sets up the user rep on every server.
func setUser(t *testing.T, rdb redis.UniversalClient, rules ...any) {
	t.Helper()
	set := func(ctx context.Context, c redis.UniversalClient) error {
		return c.Do(ctx, append([]any{"ACL", "SETUSER", "rep", "on", ">secret"}, rules...)...).Err()
	}
	err := set(t.Context(), rdb)
	if cluster, is := rdb.(*redis.ClusterClient); is {
		err = cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			return set(ctx, node)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// mayAsk has permissions that are enough for the sink, and those to ask about permissions.
const mayAsk = "+@all -@dangerous +info +acl|whoami +acl|dryrun"

// TestAViewThatLacksAPermissionFailsAlone checks that only this view fails, although one script call writes all views
// of an entity, and the server refuses the whole call.
func TestAViewThatLacksAPermissionFailsAlone(t *testing.T) {
	for _, kind := range []servers.Kind{servers.Redis7, servers.Redis8, servers.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			s := servertest.Own(t, kind)
			rdb := client(t, s)
			for name, c := range map[string]struct {
				rules, view, fix string
				opens            bool // the view opens without the permission
			}{
				"a key":      {"resetkeys ~h:* ~by:* ~c:* ~replicator:*", "ranking", " ~replicator:* ~rank", false},
				"a command":  {"-zadd", "ranking", " +@read +@write +@scripting", false},
				"a pattern":  {"resetkeys ~h:* ~rank ~c:* ~replicator:*", "index", " ~replicator:* ~by:*", true},
				"one of two": {"resetkeys ~h:[0-9]* ~rank ~by:* ~replicator:*", "counter", " ~replicator:* ~c:*", true},
			} {
				t.Run(name, func(t *testing.T) {
					if err := rdb.FlushAll(t.Context()).Err(); err != nil {
						t.Fatal(err)
					}
					setUser(t, rdb, words("~* "+mayAsk)...)
					sink := newSink(t, Config{URLs: []string{s.DSN("0")}, Username: "rep", Password: "secret"})
					defer sink.Close()
					views, op := permittedViews(t)
					open := func(views ...*replicator.View) replicator.Target {
						t.Helper()
						target, err := sink.Open(t.Context(), "", views)
						if err != nil {
							t.Fatal(err)
						}
						return target
					}
					target := open(views...)
					apply(t, target, op(1))
					setUser(t, rdb, words(c.rules)...)
					_, err := target.Apply(t.Context(), []replicator.Op{op(2)})
					refused := func(by string, err error) {
						t.Helper()
						if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "view "+c.view) ||
							!strings.Contains(err.Error(), "ACL SETUSER rep"+c.fix) ||
							strings.Contains(err.Error(), "geheim") {
							t.Errorf("%s says %v", by, err)
						}
						sinktest.Refuses(t, err, views, c.view)
					}
					refused("Apply", err)
					if !c.opens {
						_, err := sink.Open(t.Context(), "", views)
						refused("Open", err)
					}
					others, rest := without(c.view, views, op(2))
					apply(t, open(others...), rest)
					setUser(t, rdb, "~*", "+zadd")
					apply(t, open(views...), op(2))
					if got := rdb.Get(t.Context(), "c:x").Val() + rdb.HGet(t.Context(), "h:1", "a").Val(); got != "2x" {
						t.Errorf("in the end they show %q", got)
					}
				})
			}
		})
	}
}

func words(text string) (all []any) {
	for _, w := range strings.Fields(text) {
		all = append(all, w)
	}
	return all
}

// without leaves a view out of views and of an op.
func without(name string, views []*replicator.View, op replicator.Op) (rest []*replicator.View, _ replicator.Op) {
	var values []replicator.Value
	for i, v := range views {
		if v.Name != name {
			values = append(values, replicator.Value{View: len(rest), Entries: op.Values[i].Entries})
			rest = append(rest, v)
		}
	}
	op.Values = values
	return rest, op
}

// TestAViewOfAClusterThatLacksAPermissionFailsAlone checks that the other views go on, although they find the view's
// pending change in the record.
func TestAViewOfAClusterThatLacksAPermissionFailsAlone(t *testing.T) {
	_, rdb, c := startCluster(t, servers.Redis7)
	const rules = "~* +cluster " + mayAsk
	setUser(t, rdb, words(rules)...)
	c.Username, c.Password = "rep", "secret"
	sink := newSink(t, c)
	defer sink.Close()
	views, op := permittedViews(t)
	open := func(views ...*replicator.View) replicator.Target {
		t.Helper()
		target, err := sink.Open(t.Context(), "", views)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	target := open(views...)
	apply(t, target, op(1))
	setUser(t, rdb, words("resetkeys ~h:* ~by:* ~c:* ~replicator:*")...)
	_, err := target.Apply(t.Context(), []replicator.Op{op(2)})
	sinktest.Refuses(t, err, views, "ranking")
	others, rest := without("ranking", views, op(2))
	apply(t, open(others...), rest)
	_, rest = without("ranking", views, op(3))
	apply(t, open(others...), rest)
	if got := rdb.Get(t.Context(), "c:x").Val(); got != "3" {
		t.Errorf("the counter shows %q", got)
	}
	setUser(t, rdb, "~*")
	apply(t, open(views...), op(3))
	if got := rdb.ZScore(t.Context(), "rank", "x").Val(); got != 3 {
		t.Errorf("the ranking shows %v", got)
	}
}

// TestWhoMayNotAskIsToldOfAllViews checks that the error concerns all views if the user may not ask about permissions:
// the view that lacks one stays unknown.
func TestWhoMayNotAskIsToldOfAllViews(t *testing.T) {
	s := servertest.Own(t, servers.Redis7)
	rdb := client(t, s)
	setUser(t, rdb, "~*", "+@all", "-acl")
	sink := newSink(t, Config{URLs: []string{s.DSN("0")}, Username: "rep", Password: "secret"})
	defer sink.Close()
	views, op := permittedViews(t)
	target, err := sink.Open(t.Context(), "", views)
	if err != nil {
		t.Fatal(err)
	}
	setUser(t, rdb, "-zadd")
	_, err = target.Apply(t.Context(), []replicator.Op{op(1)})
	if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "`replicator check`") || replicator.IsOfViews(err) {
		t.Errorf("Apply says %v", err)
	}
}
