package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/servers/servertest"
)

const changelogViews = source + program + `
[sinks.log]
type = "kafka"
brokers = ["${BROKER}"]

[views.cells]
from = "cell"
sink = "log"
kind = "changelog"
topic = "${TOPIC}"
create = true
partitions = 3
replication = 1
`

// A changelog has the current row of each cell after a fill, changes by the tail, deletes, late versions and restarts.
func TestAChangelogHoldsTheNewestRowOfEveryCell(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.env["BROKER"], l.env["TOPIC"] = servertest.Kafka(t), servertest.Name()
	l.exec(cellTable)
	l.configure(changelogViews)
	expect := func(want map[string]string) {
		t.Helper()
		l.must("run", "--until-caught-up")
		got := map[string]string{}
		for _, r := range lastRecords(t, l.env["BROKER"], l.env["TOPIC"]) {
			if r.Row != nil {
				values, err := r.Cell.Key.Values()
				if err != nil || len(r.Row.Names) != 4 || r.Row.Names[3] != "ref_key" || r.Row.Columns[3] != r.State.Version {
					t.Fatalf("%+v: %v", r.Row, err)
				}
				got[string(values[0].([]byte)[15:])] = string(r.Row.Body)
			}
		}
		if len(got) != len(want) {
			t.Errorf("it holds %q, and not %q", got, want)
		}
		for key, body := range want {
			if got[key] != body {
				t.Errorf("of %s it holds %s, and not %s", key, got[key], body)
			}
		}
		if out := l.must("verify", "cells", "--json"); !strings.Contains(out, `"missing":0`) ||
			!strings.Contains(out, `"stale":0`) || !strings.Contains(out, `"extra":0`) {
			t.Error(out)
		}
	}
	l.put("a", 9007199254740993, `{"n": 12345678901234567890.10}`)
	l.put("b", 1, `{"email": "b1"}`)
	if out := l.must("check"); !strings.Contains(out, "it is missing, and will be created") {
		t.Error(out)
	}
	expect(map[string]string{"a": `{"n": 12345678901234567890.10}`, "b": `{"email": "b1"}`})
	l.put("b", 3, `{"email": "b3"}`)
	l.put("b", 2, `{"email": "b2"}`) // a lower version that comes late
	l.put("c", 1, `{}`)
	expect(map[string]string{"a": `{"n": 12345678901234567890.10}`, "b": `{"email": "b3"}`, "c": `{}`})
	l.exec("DELETE FROM cell WHERE ref_key = 3", "DELETE FROM cell WHERE body = '{}'")
	expect(map[string]string{"a": `{"n": 12345678901234567890.10}`, "b": `{"email": "b2"}`})
	before := len(lastRecords(t, l.env["BROKER"], l.env["TOPIC"]))
	l.must("rebuild", "cells", "--in-place")
	expect(map[string]string{"a": `{"n": 12345678901234567890.10}`, "b": `{"email": "b2"}`})
	if after := len(lastRecords(t, l.env["BROKER"], l.env["TOPIC"])); after != before {
		t.Errorf("after a rebuild it has %d keys, and had %d", after, before)
	}
}

// verify and explain don't act as a second publisher of a topic, unless something must be repaired. The tables of a
// topic may have keys of different forms.
func TestAChangelogIsLookedAtBesideItsPublisher(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.env["BROKER"], l.env["TOPIC"] = servertest.Kafka(t), servertest.Name()
	l.exec(cellTable, "CREATE TABLE fav (user INT, object INT, label VARCHAR(20), PRIMARY KEY (user, object))")
	l.configure(strings.Replace(changelogViews, `from = "cell"`, `from = ["cell", "fav"]`, 1) +
		"[tables.fav]\nkey = [\"user\", \"object\"]\n")
	l.put("a", 1, `{"n": 1}`)
	l.exec("INSERT INTO fav VALUES (1, 2, 'f')")
	p := l.running()
	l.caughtUp()
	for version := int64(2); version < 5; version++ {
		l.put("a", version, `{"n": 2}`)
		l.exec(fmt.Sprintf("INSERT INTO fav VALUES (%d, 2, 'g')", version))
		checked := fmt.Sprintf(`"checked":%d,`, version+1)
		out := l.must("verify", "cells", "--json")
		if !strings.Contains(out, checked) || !strings.Contains(out, `"differences":[]`) {
			t.Error(out)
		}
		out = l.must("explain", "cells", keyText("a"))
		if !strings.Contains(out, fmt.Sprint(version)) || !strings.Contains(out, `should hold: {"body":{"n":2}}`) {
			t.Error(out)
		}
		l.caughtUp()
	}
	if log := p.Log(); strings.Contains(log, "now publishes the view") {
		t.Errorf("the publisher was disturbed:\n%s", log)
	}
	p.stop()
}

// TestVerifyOfAChangelogFindsAndRepairsWhatTheBinlogNeverTold runs verify both with and without a running publisher.
func TestVerifyOfAChangelogFindsAndRepairsWhatTheBinlogNeverTold(t *testing.T) {
	l := newBareLab(t, servertest.MySQL(t))
	l.env["BROKER"], l.env["TOPIC"] = servertest.Kafka(t), servertest.Name()
	l.exec("CREATE TABLE fav (id INT PRIMARY KEY, label VARCHAR(20))",
		"INSERT INTO fav VALUES (1, 'a'), (2, 'b'), (3, 'c')")
	l.configure(strings.Replace(changelogViews, `from = "cell"`, `from = "fav"`, 1) + "[tables.fav]\nkey = \"id\"\n")
	p := l.running()
	l.caughtUp()
	for _, n := range []int{10, 20} {
		l.session("SET sql_log_bin = 0", fmt.Sprintf("UPDATE fav SET label = 'new%d' WHERE id = 1", n),
			fmt.Sprintf("INSERT INTO fav VALUES (%d, 'more')", n), fmt.Sprintf("DELETE FROM fav WHERE id = %d", 1+n/10))
		if out := l.must("explain", "cells", "1"); strings.Count(out, `: {"body":{"id":1,"label":`) != 2 {
			t.Errorf("what is expected and what is held should be whole rows:\n%s", out)
		}
		for _, args := range [][]string{{}, {"--repair"}} {
			r := l.run(append([]string{"verify", "cells", "--json"}, args...)...)
			if !strings.Contains(r.out, `"missing":1,"stale":1,"extra":1`) {
				t.Errorf("verify %v: exit status %d: %s%s", args, r.code, r.out, r.errors)
			}
		}
		if out := l.must("verify", "cells", "--json"); !strings.Contains(out, `"missing":0,"stale":0,"extra":0`) {
			t.Error(out)
		}
		if n == 10 {
			p.stop()
		}
	}
}

// A topic belongs to one view. Another view, such as the same view under a new name, gets the topic once the first view
// is forgotten.
func TestATopicGoesToAnotherViewOnceItsOwnIsForgotten(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.env["BROKER"], l.env["TOPIC"] = servertest.Kafka(t), servertest.Name()
	l.exec(cellTable)
	l.configure(changelogViews)
	l.put("a", 1, `{}`)
	l.must("run", "--until-caught-up")
	renamed := strings.Replace(changelogViews, "[views.cells]", "[views.rows]", 1)
	l.configure(renamed)
	for _, args := range [][]string{{"check"}, {"run", "--until-caught-up"}} {
		r := l.run(args...)
		if said := r.out + r.errors; r.code == 0 || !strings.Contains(said, "`replicator checkpoint forget cells -c ") {
			t.Errorf("%v: exit status %d: %s", args, r.code, said)
		}
	}
	l.configure(changelogViews)
	l.must("checkpoint", "forget", "cells", "--yes")
	l.configure(renamed)
	l.exec("DELETE FROM cell")
	l.put("b", 1, `{}`)
	l.must("check")
	l.must("run", "--until-caught-up")
	for key, r := range lastRecords(t, l.env["BROKER"], l.env["TOPIC"]) {
		if has := r.Row != nil; has != strings.Contains(key, "AAAAYg==") {
			t.Errorf("the topic says that there is a row of %s: %v", key, has)
		}
	}
}

// lastRecords returns the last committed record of every key.
func lastRecords(t *testing.T, broker, topic string) map[string]*changelog.Record {
	t.Helper()
	last := map[string]*changelog.Record{}
	eachRecord(t, broker, topic, func(key string, r *changelog.Record) { last[key] = r })
	for key, r := range last {
		if string(changelog.AppendKey(nil, r.Cell)) != key || r.State == (replicator.State{}) {
			t.Errorf("%s is %+v", key, r)
		}
	}
	return last
}

// eachRecord calls each for every committed record. Records of one key come in order.
func eachRecord(t *testing.T, broker, topic string, each func(key string, r *changelog.Record)) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil || listed.Error() != nil {
		t.Fatal(err, listed.Error())
	}
	ends := map[int32]int64{}
	for p, o := range listed[topic] {
		ends[p] = o.Offset
	}
	began := time.Now()
	err = changelog.Read(t.Context(), []kgo.Opt{kgo.SeedBrokers(broker)}, topic, nil, ends,
		func(records []*kgo.Record) error {
			for _, r := range records {
				if changelog.IsMark(r) {
					continue
				}
				record, err := changelog.Decode(r)
				if err != nil {
					return err
				}
				each(string(r.Key), record)
			}
			return nil
		})
	if err != nil || time.Since(began) > patience {
		t.Fatal(err)
	}
}
