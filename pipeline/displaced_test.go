package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/sinks/sinktest"
)

// partition is one of several changelogs.
type partition struct {
	*fakeLog
	name string
}

func (p partition) Name() string { return p.name }

// A view stops if its topic was replaced by another one, because the old topic's entries would stay with the new ones.
// It does not stop for other reasons.
func TestAViewStopsWhereATopicTookAnothersPlace(t *testing.T) {
	for what, c := range map[string]struct {
		fed, topics []string // the sources that fed the view, and the topics that do now
		refused     bool
	}{
		"another topic":               {[]string{"old/0", "old/1"}, []string{"new"}, true},
		"one of two topics":           {[]string{"old/0", "more/0"}, []string{"more", "new"}, true},
		"the server itself":           {[]string{""}, []string{"new"}, true},
		"a shard of it":               {[]string{"a"}, []string{"new"}, true},
		"nothing":                     {nil, []string{"new"}, false},
		"other partitions":            {[]string{"new/1", "new/7"}, []string{"new"}, false},
		"a topic more than there was": {[]string{"old/0"}, []string{"old", "new"}, false},
	} {
		t.Run(what, func(t *testing.T) {
			sink, ctx := sinktest.NewReference(), t.Context()
			opened := []*replicator.View{fakeView("v"), fakeView("other")}
			for _, source := range c.fed {
				if _, err := sink.Open(ctx, source, opened[:1]); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := sink.Open(ctx, "elsewhere/0", opened[1:]); err != nil {
				t.Fatal(err)
			}
			// refused returns why a view with a definition would not run, if the store has a checkpoint of a source.
			refused := func(definition, stored string) string {
				t.Helper()
				p := newPipeline(partition{newFakeLog(newFakeSource()), "new/0"}, sink, newMemoryStore(), "v")
				p.Views[0].Fingerprint = definition
				p.Feeds = func(source string) bool {
					topic, _, is := strings.Cut(source, "/")
					return is && slices.Contains(c.topics, topic)
				}
				why, err := p.Foresee(ctx, []replicator.Checkpoint{{View: "v", Source: stored}})
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(why["v"])
			}
			const none, way = "<nil>", "checkpoint forget v`"
			if got := refused("1", "forgotten/0"); c.refused != strings.Contains(got, way) || !c.refused && got != none {
				t.Errorf("it is refused: %s", got)
			}
			if got := refused("2", "forgotten/0"); got != none {
				t.Errorf("what another program has by that name stops it: %s", got)
			}
			if c.refused && !strings.Contains(refused("2", c.fed[0]), way) {
				t.Error("it is defined anew, and goes on")
			}
			if err := sink.Forget(ctx, "v"); err != nil {
				t.Fatal(err)
			}
			if got := refused("1", "old/0"); got != none {
				t.Errorf("once it is forgotten: %s", got)
			}
		})
	}
}
