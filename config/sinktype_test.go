package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"replicator"
	"replicator/config"
	"replicator/sinks"
	"replicator/view"
)

// queue has a view's settings for a type of sink that exists only in this file.
type queue struct {
	Topic string `json:"topic,omitempty"`
}

// queueType returns the SinkType of that sink, which is all that package config knows about it.
func queueType(opened *config.Opening) config.SinkType {
	return config.SinkType{
		Name:  "queue",
		Keys:  []string{"broker", "secret", "secret_file"},
		Kinds: []config.Kind{{Name: "row", Need: []config.Key{{Name: "topic", Example: `"users"`}}, May: []string{"fields"}}},
		Read: func(s *config.Section) any {
			s.Need("broker", `"127.0.0.1:9092"`)
			return [2]config.Secret{config.Secret(s.Name("broker", "", `"127.0.0.1:9092"`)), s.Secret("secret", `"${SECRET}"`)}
		},
		ReadView: func(s *config.ViewSection) config.Target {
			topic := s.Name("topic", "", `"users"`)
			s.View.Settings = queue{Topic: topic}
			return config.Target{Key: "topic", Places: []string{topic}}
		},
		Open: func(o config.Opening) (replicator.Sink, error) { *opened = o; return nil, nil },
	}
}

func readWithQueue(text string, opened *config.Opening) (*config.Config, error) {
	c, _, err := config.Read("f.toml", "/etc/replicator", base+text, os.LookupEnv,
		append(sinks.Types(), queueType(opened)), os.ReadFile)
	return c, err
}

const queued = `[sinks.q]
type = "queue"
broker = "b"
secret = "hunter2"
[views.v]
from = "cell.users"
sink = "q"
kind = "row"
topic = "users"
fields = ["a"]
`

func TestATypeOfSinkBringsItsOwnKeysKindsAndSettings(t *testing.T) {
	var opened config.Opening
	c, err := readWithQueue(queued, &opened)
	if err != nil {
		t.Fatal(err)
	}
	v := c.View("v")
	equal(t, "view", *v, replicator.View{Name: "v", Sink: "q", Kind: "row",
		From:   []replicator.Feed{{Table: "cell", Column: "users"}},
		Fields: []replicator.Field{{Name: "a", Path: "a"}}, Settings: queue{"users"}, OnChange: "refuse"})
	if _, err := c.Sink("q").Open(config.Opening{Views: c.Views, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if s := opened.Sink; s.Name != "q" || s.Settings.([2]config.Secret)[1].Reveal() != "hunter2" || opened.Views[0] != v {
		t.Errorf("opened with %+v", opened)
	}
	shown, err := json.Marshal(c)
	if text := fmt.Sprintf("%+v %#v %s", *c, *c, shown); err != nil || strings.Contains(text, "hunter2") {
		t.Errorf("shows a secret: %s, %v", text, err)
	}
	before := view.Fingerprint(v, c.Tables)
	if v.Settings = (queue{"others"}); view.Fingerprint(v, c.Tables) == before {
		t.Error("the settings are no part of the fingerprint")
	}
}

func TestATypeOfSinkIsHeldToItsKeys(t *testing.T) {
	for _, c := range []struct{ old, new, says string }{
		{`"queue"`, `"queu"`,
			`"queu" is not a type of sink; did you mean "queue"? (known: mysql, redis, elastic, kafka, queue)`},
		{`broker = "b"`, ``, `sinks.q: broker is missing; say for example broker = "127.0.0.1:9092"`},
		{`secret = "hunter2"`, `url = "x"`,
			`sinks.q.url: does not belong to a queue sink, which has: type, broker, secret, secret_file, timeout`},
		{`kind = "row"`, `kind = "index"`, `a queue sink has no kind "index"; did you mean "row"?`},
		{`topic = "users"`, ``, `views.v: topic is missing; say for example topic = "users"`},
		{`fields = ["a"]`, `unique = true`,
			`views.v.unique: does not belong to kind row of a queue sink, which has: from, sink, kind, where, on_change, join, topic, fields`},
		{`fields = ["a"]`, `fields = ["a", "b.a"]`, `name "a" occurs twice`},
	} {
		_, err := readWithQueue(strings.Replace(queued, c.old, c.new, 1), &config.Opening{})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("with %s the error is %v, without %s", c.new, err, c.says)
		}
	}
	again := strings.Replace(queued[strings.Index(queued, "[views.v]"):], "[views.v]", "[views.w]", 1)
	if _, err := readWithQueue(queued+again, &config.Opening{}); err == nil ||
		!strings.Contains(err.Error(), "views.w.topic: the view v is kept in the same place") {
		t.Errorf("two views in one topic: %v", err)
	}
}
