package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"

	clients "replicator/internal/lab"
)

// movedViews are views in every sink. Each stores contributions of several sources next to each other.
const movedViews = redisSink + elasticSink + `
[views.cached]
from = "cell.users"
sink = "cache"
kind = "counter"
key = "n:{username}"
[views.hash]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "u:{row_key}"
fields = ["email"]
[views.set]
from = "cell.users"
sink = "cache"
kind = "index"
key = "e:{email}"
[views.documents]
from = "cell.users"
sink = "search"
kind = "document"
index = "${INDEX}"
fields = ["email"]
`

var movedNames = []string{"index_users_email", "users", "names", "cached", "hash", "set", "documents"}

// movedLab is a publisher whose topic is replaced, and members that keep views of the topic in every sink.
type movedLab struct {
	*topicLab
	rdb *goredis.Client
}

func newMovedLab(t *testing.T) *movedLab {
	t.Helper()
	l := &movedLab{topicLab: newTopicLab(t)}
	var redis *servers.Server
	redis, l.rdb = ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.env["ELASTIC"], l.env["INDEX"], l.env["GROUP"] = servertest.Elasticsearch(t), servertest.Name(), l.env["TOPIC"]
	return l
}

// reads configures a member to read the topics.
func (l *movedLab) reads(m *lab, topics ...string) {
	l.t.Helper()
	from := strings.NewReplacer(`["${TOPIC}"]`, `["`+strings.Join(topics, `", "`)+`"]`, "${TOPIC}", "${GROUP}")
	m.configure(from.Replace(topicSource), `dsn = "${DSN}"`, program, mainSink, emailView, usersView, nameCount, movedViews)
}

// moves gives the publisher another topic with another number of partitions, and fills it.
func (l *movedLab) moves() {
	l.t.Helper()
	l.env["TOPIC"] = servertest.Name()
	l.configure(strings.Replace(changelogViews, "partitions = 3", "partitions = 2\non_change = \"rebuild\"", 1))
	l.must("run", "--until-caught-up")
}

// refused fails the test unless a member refuses every view, because it was kept from another source.
func (l *movedLab) refused(m *lab, from string) {
	l.t.Helper()
	r := m.run("run", "--until-caught-up")
	for _, view := range movedNames {
		says := func(line string) bool {
			return strings.Contains(line, `"views":["`+view+`"]`) && strings.Contains(line, " it was filled from "+from)
		}
		if r.code != exitFailed || !slices.ContainsFunc(strings.Split(r.errors, "\n"), says) {
			l.t.Errorf("exit status %d, and nothing says that %s was kept from %s\n%s", r.code, view, from, r.errors)
		}
	}
}

// shows fails the test unless every view has exactly the entries of the named keys, in this version.
func (l *movedLab) shows(m *lab, when string, version int64, keys string) {
	l.t.Helper()
	var want []string
	count := map[string]int{}
	for i, key := range userKeys {
		if strings.Contains(keys, key) {
			want = append(want, fmt.Sprintf("%s%d@x.org %s", key, version, strings.ToUpper(keyText(key))))
			count[fmt.Sprintf("n%d", i%3)]++
		}
	}
	l.expect("SELECT email, HEX(row_key) FROM index_users_email ORDER BY 1", want...)
	l.expect("SELECT email, HEX(id) FROM users ORDER BY 1", want...)
	for name, n := range count {
		l.expect("SELECT cnt FROM names WHERE username = '"+name+"'", fmt.Sprint(n))
		if got := l.rdb.Get(l.t.Context(), "n:"+name).Val(); got != fmt.Sprint(n) {
			l.t.Errorf("%s: %s counts %q in Redis, and not %d", when, name, got, n)
		}
	}
	for _, of := range []string{"u:*", "e:*"} {
		if got := l.rdb.Keys(l.t.Context(), of).Val(); len(got) != len(keys) {
			l.t.Errorf("%s: %s are %q, and not %d", when, of, got, len(keys))
		}
	}
	documents, err := clients.Elastic{URL: l.env["ELASTIC"]}.Documents(l.t.Context(), l.env["INDEX"])
	if err != nil || len(documents) != len(keys) {
		l.t.Errorf("%s: the documents are %v (%v), and not %d", when, documents, err, len(keys))
	}
	m.must(append([]string{"verify"}, movedNames...)...)
}

// forgets applies the remedy, `checkpoint forget`, at one of the members.
func (l *movedLab) forgets(m *lab) {
	l.t.Helper()
	m.must(append([]string{"checkpoint", "forget", "--yes"}, movedNames...)...)
}

// To a sink, each partition is a separate source. After a topic is replaced, the contributions of its partitions would
// remain next to those of the new topic's partitions.
func TestMembersOfATopicThatWasReplacedCountNothingTwice(t *testing.T) {
	t.Parallel()
	l := newMovedLab(t)
	first := l.env["TOPIC"]
	l.publish(1)
	a, b := l.member(""), l.member("")
	l.reads(a, first)
	a.must("run", "--until-caught-up")
	l.shows(a, "filled", 1, "abcdefghijkl")

	l.exec("DELETE FROM cell WHERE row_key IN (0x" + keyText("a") + ", 0x" + keyText("e") + ")")
	l.moves()
	for _, m := range []*lab{a, b} { // b has saved nothing about the former topic, so only the sinks know it
		l.reads(m, l.env["TOPIC"])
		l.refused(m, "partition "+first+"/")
	}
	l.forgets(b) // a still has saved checkpoints of the former topic
	a.must("run", "--until-caught-up")
	l.shows(a, "forgotten", 1, "bcdfghijkl")
	l.exec("DELETE FROM cell WHERE row_key = 0x" + keyText("b"))
	l.must("run", "--until-caught-up")
	b.must("run", "--until-caught-up")
	l.shows(b, "and kept up", 1, "cdfghijkl")
}

// A run that reads the server directly is another source, too.
func TestMembersThatTakeOverViewsOfARunCountNothingTwice(t *testing.T) {
	t.Parallel()
	l := newMovedLab(t)
	l.publish(1)
	m := l.member("")
	m.configure(source, program, mainSink, emailView, usersView, nameCount, movedViews)
	m.must("run", "--until-caught-up")
	l.shows(m, "filled by a run", 1, "abcdefghijkl")
	l.exec("DELETE FROM cell WHERE row_key = 0x" + keyText("a"))
	l.must("run", "--until-caught-up")
	l.reads(m, l.env["TOPIC"])
	l.refused(m, "[source] dsn")
	l.forgets(m)
	m.must("run", "--until-caught-up")
	l.shows(m, "forgotten", 1, "bcdefghijkl")
}
