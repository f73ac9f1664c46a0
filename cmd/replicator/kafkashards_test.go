package main

import (
	"fmt"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// sharded publishes two servers, each into its own topic, and writes a cell in both. other is the second server.
func (l *topicLab) sharded() (other *lab) {
	l.t.Helper()
	other = newBareLab(l.t, servertest.MySQL(l.t))
	other.exec(cellTable)
	l.env["OTHER"] = other.env["DSN"]
	shards := strings.Replace(changelogViews, "dsn = \"${DSN}\"", "[source.shards]\na = \"${DSN}\"\nb = \"${OTHER}\"", 1)
	l.configure(shards)
	if r := l.run("check"); r.code != 2 ||
		!strings.Contains(r.errors, "a topic can hold only one shard of the source") {
		l.t.Errorf("a topic for two shards: exit status %d: %s%s", r.code, r.out, r.errors)
	}
	l.configure(strings.Replace(shards, "${TOPIC}", "${TOPIC}-{source}", 1))
	l.put("a", 1, `{"username": "ada", "email": "ada@x.org"}`)
	other.put("b", 1, `{"username": "bob", "email": "bob@x.org"}`)
	l.must("run", "--until-caught-up")
	return other
}

// memberOfShards returns a member that reads the topics of both shards. more is added to [source], and views are added
// to the default ones.
func (l *topicLab) memberOfShards(more string, views ...string) *lab {
	m := l.member("")
	topics := strings.Replace(topicSource, "topics = [\"${TOPIC}\"]", "topics = [\"${TOPIC}-a\", \"${TOPIC}-b\"]", 1)
	m.configure(append([]string{topics, more, program, mainSink, emailView, usersView, nameCount}, views...)...)
	return m
}

// A topic has one origin. A fence is a log position of one origin, and a wait for it doesn't wait for the topics of
// other origins.
func TestShardsArePublishedIntoTopicsOfTheirOwn(t *testing.T) {
	t.Parallel()
	l := newTopicLab(t)
	other := l.sharded()
	for _, origin := range []string{"a", "b"} {
		for _, r := range lastRecords(t, l.env["BROKER"], l.env["TOPIC"]+"-"+origin) {
			if r.Source != origin {
				t.Errorf("a record of shard %s names %q", origin, r.Source)
			}
		}
	}
	m := l.memberOfShards("")
	m.running()
	includes := func(shard, fence string) {
		t.Helper()
		m.must("wait", "--source", shard, "--pos", fence, "--timeout", patience.String())
	}
	l.put("a", 3, `{"username": "ada", "email": "ada3@x.org"}`)
	l.put("a", 2, `{"username": "ada", "email": "late@x.org"}`)
	other.exec("DELETE FROM cell")
	other.put("c", 1, `{"username": "cyd", "email": "cyd@x.org"}`)
	fence := l.position()
	l.must("run", "--until-caught-up")
	includes("a", fence)
	includes("b", fence)
	l.expect("SELECT email FROM users ORDER BY 1", "ada3@x.org", "cyd@x.org")
	l.expect("SELECT email FROM index_users_email ORDER BY 1", "ada3@x.org", "cyd@x.org")
	l.expect("SELECT * FROM names ORDER BY 1", "ada 1", "cyd 1")
	for _, args := range [][]string{{"--pos", fence}, {"--source", "c", "--pos", fence}} {
		r := m.run(append([]string{"wait", "--timeout", patience.String()}, args...)...)
		if r.code == 0 || !strings.Contains(r.errors, "shard a and shard b") {
			t.Errorf("wait %v: exit status %d: %s", args, r.code, r.errors)
		}
	}
}

// verify compares a topic's cells with the topic's own server. It ignores what other topics contributed.
func TestARepairAtAMemberTakesNothingOfAnotherOriginAway(t *testing.T) {
	t.Parallel()
	l := newTopicLab(t)
	l.sharded()
	m := l.memberOfShards("")
	m.must("run", "--until-caught-up")
	right := func(when string) {
		t.Helper()
		l.expect("SELECT email FROM users ORDER BY 1", "ada@x.org", "bob@x.org")
		l.expect("SELECT email FROM index_users_email ORDER BY 1", "ada@x.org", "bob@x.org")
		l.expect("SELECT * FROM names ORDER BY 1", "ada 1", "bob 1")
		if t.Failed() {
			t.Fatal(when)
		}
	}
	views := []string{"users", "index_users_email", "names"}
	one := l.memberOfShards(`dsn = "${DSN}"`)
	for _, args := range [][]string{{"verify", "--repair"}, {"verify"}} {
		if r := one.run(append(args, views...)...); r.code != 1 || !strings.Contains(r.errors, "has cells of shard a") {
			t.Errorf("%v with a dsn without a name: exit status %d: %s%s", args, r.code, r.out, r.errors)
		}
	}
	out := one.run("check").out
	if !strings.Contains(out, "verify and explain") || !strings.Contains(out, "has cells of shard b") {
		t.Errorf("check says\n%s", out)
	}
	right("after a repair that was refused")
	one = l.memberOfShards("[source.shards]\na = \"${DSN}\"")
	out = one.must(append([]string{"verify", "--repair", "--json"}, views...)...)
	if strings.Count(out, `"checked":1,`) != 3 {
		t.Errorf("the cells of shard a are not what was compared:\n%s", out)
	}
	right("after a repair of shard a")
	both := l.memberOfShards("[source.shards]\na = \"${DSN}\"\nb = \"${OTHER}\"")
	l.exec("DELETE FROM users WHERE email = 'bob@x.org'", "DELETE FROM index_users_email")
	both.run(append([]string{"verify", "--repair"}, views...)...)
	right("after a repair of both")
	both.must(append([]string{"verify"}, views...)...)
	if out := both.must("explain", "users", keyText("b")); !strings.Contains(out, "the view is right") {
		t.Error(out)
	}
}

// Two publishers have only a dsn, without shard names. So the member can't tell which of their servers its own dsn
// belongs to.
func TestARepairByOneOfTwoServersWithoutNamesIsRefused(t *testing.T) {
	t.Parallel()
	l := newTopicLab(t)
	other := newBareLab(t, servertest.MySQL(t))
	other.exec(cellTable)
	other.env["BROKER"], other.env["TOPIC"] = l.env["BROKER"], l.env["TOPIC"]+"-b"
	l.env["TOPIC"] += "-a"
	other.configure(changelogViews)
	l.put("a", 1, `{"username": "ada", "email": "ada@x.org"}`)
	other.put("b", 1, `{"username": "bob", "email": "bob@x.org"}`)
	l.must("run", "--until-caught-up")
	other.must("run", "--until-caught-up")
	l.env["TOPIC"] = strings.TrimSuffix(l.env["TOPIC"], "-a")
	m := l.memberOfShards(`dsn = "${DSN}"`)
	m.must("run", "--until-caught-up")
	r := m.run("verify", "--repair", "users", "index_users_email", "names")
	if r.code != 1 || !strings.Contains(r.errors, "nothing says which one has a given cell") {
		t.Errorf("exit status %d: %s%s", r.code, r.out, r.errors)
	}
	l.expect("SELECT email FROM users ORDER BY 1", "ada@x.org", "bob@x.org")
	l.expect("SELECT email FROM index_users_email ORDER BY 1", "ada@x.org", "bob@x.org")
}

// An entity moves from one shard to another, and thus from one topic to another. The result must not depend on which
// topic is read first.
func TestEntitiesMoveBetweenTheTopicsOfShards(t *testing.T) {
	l := newTopicLab(t)
	other := l.sharded()
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	m := l.memberOfShards("", redisSink+`
[views.cached]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "u:{row_key}"
fields = ["email"]
`)
	m.running()
	shows := func(when, ada string) {
		t.Helper()
		l.must("run", "--until-caught-up")
		ada, bob := ada+"@x.org", "bob@x.org"
		eventually(t, func() error {
			got := []any{l.rows("SELECT email FROM users ORDER BY 1"), l.rows("SELECT email FROM index_users_email ORDER BY 1"),
				l.rows("SELECT * FROM names ORDER BY 1"), rdb.HGet(t.Context(), "u:"+keyText("a"), "email").Val()}
			want := []any{[]string{ada, bob}, []string{ada, bob}, []string{"ada 1", "bob 1"}, ada}
			return as(fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprintf("%s the views hold %v, not %v", when, got, want))
		})
	}
	shows("at first", "ada")
	other.put("a", 7, `{"username": "ada", "email": "ada7@x.org"}`)
	shows("while both shards have it", "ada")
	l.exec("DELETE FROM cell")
	shows("after it moved", "ada7")
	l.put("a", 1, `{"username": "ada", "email": "ada1@x.org"}`)
	other.exec("DELETE FROM cell WHERE ref_key = 7")
	shows("after it moved back", "ada1")
	eventually(t, func() error { // a letter goes once what it held back is written
		out := strings.TrimSpace(m.must("deadletters", "list", "--json"))
		return as(out == "", "there are letters of what moved: "+out)
	})
}
