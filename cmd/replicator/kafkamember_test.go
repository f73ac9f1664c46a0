package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const topicSource = `
[source]
type = "kafka"
brokers = ["${BROKER}"]
topics = ["${TOPIC}"]
group = "${TOPIC}"
session = "6s"
`

// topicLab is a publisher of the cells, and members that keep views of its topic in the same database.
type topicLab struct{ *lab }

func newTopicLab(t *testing.T) *topicLab {
	t.Helper()
	return newTopicLabOn(t, servertest.MySQL(t))
}

func newTopicLabOn(t *testing.T, s *servers.Server) *topicLab {
	t.Helper()
	l := &topicLab{newBareLab(t, s)}
	l.env["BROKER"], l.env["TOPIC"] = servertest.Kafka(t), servertest.Name()
	l.exec(cellTable, usersTable, emailTable, "CREATE TABLE names (username VARCHAR(10) PRIMARY KEY, cnt INT NOT NULL)")
	l.configure(changelogViews)
	return l
}

const nameCount = `
[views.names]
from = "cell.users"
sink = "main"
kind = "counter"
group = ["username"]
`

// member returns a member with its own directory. more is added to its [source].
func (l *topicLab) member(more string) *lab {
	m := *l.lab
	m.dir, m.env = l.t.TempDir(), map[string]string{}
	for name, value := range l.env {
		m.env[name] = value
	}
	m.listen = servertest.FreeAddress(l.t)
	m.env["LISTEN"] = m.listen
	m.configure(topicSource, more, program, mainSink, emailView, usersView, nameCount)
	return &m
}

// putAll writes a version of all cells and returns a fence that includes it.
func (l *topicLab) putAll(version int64) (fence string) {
	l.t.Helper()
	for i, key := range userKeys {
		l.put(key, version, fmt.Sprintf(`{"username": "n%d", "email": "%s%d@x.org", "phone": 1}`, i%3, key, version))
	}
	return l.position()
}

// publish writes and publishes a version of all cells, and returns a fence that includes it.
func (l *topicLab) publish(version int64) (fence string) {
	l.t.Helper()
	fence = l.putAll(version)
	l.must("run", "--until-caught-up")
	return fence
}

// includes waits until a member's views include a fence.
func (l *topicLab) includes(m *lab, fence string) {
	l.t.Helper()
	m.must("wait", "--pos", fence, "--timeout", patience.String())
}

// right fails the test unless the views match a version of the cells.
func (l *topicLab) right(version int64) {
	l.t.Helper()
	var emails []string
	for _, key := range userKeys {
		emails = append(emails, fmt.Sprintf("%s%d@x.org %s", key, version, strings.ToUpper(keyText(key))))
	}
	l.expect("SELECT email, HEX(row_key) FROM index_users_email ORDER BY 1", emails...)
	l.expect("SELECT email, HEX(id) FROM users ORDER BY 1", emails...)
	l.expect("SELECT * FROM names ORDER BY 1", "n0 4", "n1 4", "n2 4")
}

// If a source in Kafka also has its origin's dsn, verify and explain compare the views with the tables.
func TestViewsOfATopicAreVerifiedAndExplainedByTheTables(t *testing.T) {
	t.Parallel()
	l := newTopicLab(t)
	l.publish(1)
	m := l.member(`dsn = "${DSN}"`)
	m.must("run", "--until-caught-up")
	l.right(1)
	found := func(want string, args ...string) {
		t.Helper()
		out := m.run(append([]string{"verify", "--json"}, args...)...)
		if !strings.Contains(out.out, want) {
			t.Errorf("verify %v: want %s in\n%s%s", args, want, out.out, out.errors)
		}
	}
	clean := `"checked":12,"missing":0,"stale":0,"extra":0,"dead":0,"repaired":0`
	for _, view := range []string{"index_users_email", "users", "names"} {
		found(clean, view)
	}
	l.exec("DELETE FROM users WHERE email = 'a1@x.org'", "UPDATE users SET email = 'who' WHERE email = 'b1@x.org'",
		"DELETE FROM index_users_email WHERE email = 'c1@x.org'", "UPDATE names SET cnt = 7 WHERE username = 'n1'")
	if out := m.must("explain", "users", keyText("a")); !strings.Contains(out, "changed by hand") {
		t.Error(out)
	}
	if out := m.must("explain", "users", keyText("d")); !strings.Contains(out, "the view is right") {
		t.Error(out)
	}
	found(`"missing":1,"stale":1,"extra":0,"dead":0,"repaired":2`, "users", "--repair")
	found(`"missing":1,"stale":0`, "index_users_email", "--repair")
	found(`"repaired":`, "names", "--repair")
	for _, view := range []string{"index_users_email", "users", "names"} {
		found(clean, view)
	}
	l.right(1)

	l.publish(2) // the repair must not block newer versions
	m.must("run", "--until-caught-up")
	l.right(2)
	found(clean, "names")

	bare := l.member("")
	for _, args := range [][]string{{"verify", "users"}, {"explain", "users", keyText("a")}} {
		if r := bare.run(args...); r.code != 2 || !strings.Contains(r.errors, "Set dsn in [source]") {
			t.Errorf("%v without a dsn: exit status %d: %s", args, r.code, r.errors)
		}
	}
}

// A member knows the source only through the topic's marks. The publisher must also write marks after changes that
// concern no view, and more often than in other sinks.
func TestAMemberIncludesAPlaceWhereNothingOfItsChanged(t *testing.T) {
	t.Parallel()
	l := newTopicLab(t)
	l.publish(1)
	m := l.member("")
	publisher, member := l.running(), m.running()
	for range 2 {
		l.exec("CREATE TABLE other (id INT)", "DROP TABLE other")
		m.waitFor(l.position())
	}
	member.stop()
	publisher.stop()
}

// A member is suspended for longer than its session and loses its partitions. When it resumes, the states in the sink
// decide about its writes, so none of them undoes newer ones.
func TestAMemberThatStoodStillTakesNothingBack(t *testing.T) {
	t.Parallel()
	l := newTopicLab(t)
	fence := l.publish(1)
	a, b := l.member(""), l.member("")
	sleeper := a.running()
	l.includes(a, fence)
	b.running()
	l.includes(b, fence)
	sleeper.signal(syscall.SIGSTOP)
	l.includes(b, l.publish(2)) // b keeps all partitions now
	l.right(2)
	fence = l.publish(3)
	sleeper.signal(syscall.SIGCONT)
	l.includes(b, fence)
	l.right(3)
	eventually(t, func() error {
		for _, v := range jsonLines[viewStatus](t, a.must("status", "--json")) {
			if v.State == "running" {
				return nil
			}
		}
		return errors.New("the member that stood still has no partition")
	})
	l.includes(a, fence)
	l.right(3)
}

// The broker and the members have their default settings. While a killed member's partitions have no owner, a wait at
// another member continues.
func TestWhatAKilledMemberHadGoesOn(t *testing.T) {
	l := newTopicLab(t)
	publisher := l.running()
	defer publisher.stop()
	byDefault := func(m *lab) *lab {
		source := strings.Replace(topicSource, "session = \"6s\"\n", "", 1)
		m.configure(source, program, mainSink, emailView, usersView, nameCount)
		return m
	}
	a, b := byDefault(l.member("")), byDefault(l.member(""))
	fence := l.putAll(1)
	l.caughtUp()
	first := a.running()
	l.includes(a, fence)
	second := b.running()
	has := func(m *lab) (own int) {
		for _, v := range jsonLines[viewStatus](t, m.must("status", "--json")) {
			if v.State == "running" {
				own++
			}
		}
		return own
	}
	const views, partitions = 3, 3
	eventually(t, func() error { return as(has(a) > 0 && has(b) > 0, "both have partitions") })
	goesOn := func(m *lab, version int64) {
		t.Helper()
		fence, killed := l.putAll(version), time.Now()
		m.waitFor(fence)
		l.right(version)
		t.Logf("version %d is there after %s", version, time.Since(killed).Round(time.Millisecond))
	}
	first.kill()
	goesOn(b, 2)
	eventually(t, func() error { return as(has(b) == views*partitions, "the other has all partitions") })
	second.kill()
	b.running()
	goesOn(b, 3)
}

// A repair at a member finds a dead cell. The letter is cleared by the member that applies the cell's next version.
func TestALetterOfARepairAtAMemberIsClearedByTheNextVersion(t *testing.T) {
	t.Parallel()
	l := newTopicLab(t)
	fence := l.publish(1)
	publisher := l.running()
	defer publisher.stop()
	m := l.member(`dsn = "${DSN}"`)
	shared := strings.Replace(program, `path = "state"`, "store = \"mysql\"\ndsn = \"${DSN}\"", 1)
	m.configure(topicSource, `dsn = "${DSN}"`, shared, mainSink, emailView, usersView, nameCount)
	letters := func(m *lab, want int) {
		t.Helper()
		if n := strings.Count(m.must("deadletters", "list", "--view", "users", "--json"), `"id"`); n != want {
			t.Errorf("there are %d dead letters, want %d", n, want)
		}
	}
	member := m.running()
	l.includes(m, fence)
	l.session("SET sql_log_bin = 0", `UPDATE cell SET body = '{"username": "a name that is too long", "email": "x"}' `+
		`WHERE row_key = 0x`+keyText("a"))
	if r := m.run("verify", "users", "--repair"); r.code != 3 {
		t.Fatalf("exit status %d: %s%s", r.code, r.out, r.errors)
	}
	letters(m, 1)
	other := l.member(`dsn = "${DSN}"`) // same group and store, but it keeps no partition
	other.configure(topicSource, `dsn = "${DSN}"`, shared, mainSink, emailView, usersView, nameCount)
	l.session("SET sql_log_bin = 0", `UPDATE cell SET body = '{"username": "a name that is too long", "email": "y"}' `+
		`WHERE row_key = 0x`+keyText("b"))
	if r := other.run("verify", "users", "--repair"); r.code != 1 || !strings.Contains(r.errors, "is kept by member") {
		t.Errorf("at another member: exit status %d: %s%s", r.code, r.out, r.errors)
	}
	m.run("verify", "users", "--repair") // finds a dead cell without a letter
	letters(m, 2)
	l.includes(m, l.putAll(2))
	letters(m, 0)
	l.right(2)
	member.stop()
}

// The group's offsets describe the previous views and the previous contents of the sink. A new or forgotten view has
// caught up only when the sink has its entries.
func TestAViewThatIsAddedOrForgottenHasCaughtUpOnceTheSinkHoldsIt(t *testing.T) {
	t.Parallel()
	l := newTopicLab(t)
	fence := l.publish(1)
	m := l.member("")
	m.configure(topicSource, program, mainSink, emailView, usersView)
	m.must("run", "--until-caught-up")
	l.expect("SELECT * FROM names")
	m.configure(topicSource, program, mainSink, emailView, usersView, nameCount)
	m.must("run", "--until-caught-up")
	l.right(1)
	m.must("checkpoint", "forget", "users", "--yes")
	l.exec("DELETE FROM users")
	m.must("run", "--until-caught-up")
	l.right(1)
	m.must("checkpoint", "forget", "users", "--yes")
	l.exec("DELETE FROM users")
	m.running()
	l.includes(m, fence)
	l.right(1)
}

// A publisher's view no longer reads a table or a column's value. The cells of that table or value disappear from the
// topic and from the members' views. They return once the view reads them again.
func TestWhatAPublisherReadsNoMoreIsGoneAtTheMembers(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{"a table": `"fav"`, "a column": `["fav", "cell.others"]`} {
		t.Run(name, func(t *testing.T) {
			l := newTopicLab(t)
			l.exec("CREATE TABLE fav (id INT PRIMARY KEY, label VARCHAR(20))", "INSERT INTO fav VALUES (1, 'f')")
			publishes := func(from string) {
				from = "on_change = \"rebuild\"\nfrom = " + from
				l.configure(strings.Replace(changelogViews, `from = "cell"`, from, 1), "[tables.fav]\nkey = \"id\"\n")
			}
			publishes(`["cell", "fav"]`)
			l.publish(1)
			m := l.member("")
			m.must("run", "--until-caught-up")
			l.right(1)
			publishes(from)
			l.must("run", "--until-caught-up") // the source is idle during this run
			for key, r := range lastRecords(t, l.env["BROKER"], l.env["TOPIC"]) {
				if has := r.Row != nil; has != (r.Cell.Table == "fav") {
					t.Errorf("the topic says that there is a row of %s: %v", key, has)
				}
			}
			m.must("run", "--until-caught-up")
			l.expect("SELECT * FROM users")
			l.expect("SELECT * FROM index_users_email")
			l.expect("SELECT * FROM names")
			publishes(`["cell", "fav"]`)
			l.exec("INSERT INTO fav VALUES (2, 'g')")
			l.must("run", "--until-caught-up")
			m.must("run", "--until-caught-up")
			l.right(1)
			l.publish(2)
			m.must("run", "--until-caught-up")
			l.right(2)
		})
	}
}

// A lost topic is filled again with the source's current rows. The members go back to these rows, even if they are
// older.
func TestMembersGoBackWithATopicThatWasLost(t *testing.T) {
	t.Parallel()
	l := newTopicLab(t)
	l.publish(1)
	l.publish(2)
	m := l.member("on_lost = \"rebuild\"\ndsn = \"${DSN}\"")
	m.must("run", "--until-caught-up")
	l.right(2)
	l.loseTopic()
	l.exec("DELETE FROM cell WHERE ref_key = 2")
	if out := m.must("explain", "users", keyText("a")); !strings.Contains(out, "a newer version than the source has") {
		t.Error(out)
	}
	l.must("checkpoint", "reset", "cells", "--yes")
	l.must("run", "--until-caught-up")
	m.must("run", "--until-caught-up")
	l.right(1)
	l.publish(3)
	m.must("run", "--until-caught-up")
	l.right(3)
}

// loseTopic deletes the topic and waits until the brokers no longer list it.
func (l *topicLab) loseTopic() {
	l.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(l.env["BROKER"]))
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.DeleteTopic(l.t.Context(), l.env["TOPIC"]); err != nil {
		l.t.Fatal(err)
	}
	eventually(l.t, func() error {
		if topics, err := admin.ListTopics(l.t.Context(), l.env["TOPIC"]); err != nil || topics.Has(l.env["TOPIC"]) {
			return errors.New("the topic is still there")
		}
		return nil
	})
}
