package kafka

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
)

// rivals returns two views with the same topic, and a sink for each.
func (c *cluster) rivals(t *testing.T) (mine *replicator.View, sink *Sink, other *replicator.View, others *Sink) {
	t.Helper()
	mine, other = favorites(), favorites()
	mine.Name, other.Name, other.Settings = "mine", "other", mine.Settings
	c.topic(settingsOf(mine).Topic, 2)
	sink, others = c.sink(t, mine), c.sink(t, other)
	return mine, sink, other, others
}

// refused fails the test unless an error says that the topic belongs to another view, and what to do.
func refused(t *testing.T, err error, v *replicator.View, by string) {
	t.Helper()
	_, others := replicator.Troubled([]*replicator.View{v, {Name: "a third"}}, err)
	if !replicator.IsFatal(err) || len(others) != 1 || others[0] == v || !strings.Contains(err.Error(),
		"belongs to view "+by) || !strings.Contains(err.Error(), "`replicator checkpoint forget "+by+"`") {
		t.Errorf("view %s: %v", v.Name, err)
	}
}

// failing returns the findings of a check with the level fail.
func failing(t *testing.T, s *Sink, v *replicator.View) (all []replicator.Finding) {
	t.Helper()
	for _, f := range s.Check(t.Context(), []*replicator.View{v}) {
		if f.Level == replicator.Fail {
			all = append(all, f)
		}
	}
	return all
}

// Readers tell publishers' marks apart only by the source. So one view's mark would also cover changes that another
// view has not published yet.
func TestATopicIsOneViewsUntilThatIsForgotten(t *testing.T) {
	c := newCluster(t)
	mine, sink, other, others := c.rivals(t)
	at := replicator.Standing{Position: replicator.Position{Order: 10, Token: "p"}}
	target := reopened(t, sink, mine)
	for range 2 { // the refused Open must not write a mark
		_, err := others.Open(t.Context(), "", []*replicator.View{other})
		refused(t, err, other, "mine")
		_, err = others.Look(t.Context(), "", []*replicator.View{other})
		refused(t, err, other, "mine")
		if found := failing(t, others, other); len(found) != 1 || !strings.Contains(found[0].Fix, "forget mine") {
			t.Errorf("check finds %+v", found)
		}
		if err := target.Mark(t.Context(), at); err != nil {
			t.Error(err)
		}
		if found := failing(t, sink, mine); len(found) > 0 {
			t.Errorf("check finds %+v", found)
		}
	}
	for _, v := range []*replicator.View{mine, other} { // a publisher of another shard can't share the topic, either
		_, err := c.sink(t, v).Open(t.Context(), "a", []*replicator.View{v})
		if !replicator.IsFatal(err) ||
			!strings.Contains(err.Error(), "belongs to view mine of a source without shards") {
			t.Errorf("view %s of another shard: %v", v.Name, err)
		}
	}
	if err := sink.Forget(t.Context(), mine.Name); err != nil {
		t.Fatal(err)
	}
	if found := failing(t, others, other); len(found) > 0 {
		t.Errorf("check finds %+v", found)
	}
	reopened(t, others, other)
	_, err := sink.Open(t.Context(), "", []*replicator.View{mine})
	refused(t, err, mine, "other")
}

// If two publishers start at the same time, neither may find the other's mark. So a publisher also stops later, when
// it finds one.
func TestAPublisherStopsWhereAnotherViewIsMarked(t *testing.T) {
	c := newCluster(t)
	mine, sink, _, _ := c.rivals(t)
	target := reopened(t, sink, mine)
	k := target.(*Target).keepers[0]
	mark := *k.mark
	mark.View = "other"
	r := changelog.EncodeMark(&mark)
	r.Topic = k.topic.marks.name
	c.produce(r)
	refused(t, target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 9, Token: "p"}}), mine,
		"other")
}

// Marks from before the topic was deleted and created again don't count.
func TestATopicThatWasMadeAnewIsNobodys(t *testing.T) {
	c := newCluster(t)
	mine, sink, other, others := c.rivals(t)
	mark := *reopened(t, sink, mine).(*Target).keepers[0].mark
	mark.Topic, mark.View = "the one before", "former"
	r := changelog.EncodeMark(&mark)
	r.Topic = settingsOf(mine).Topic + changelog.MarksSuffix
	c.produce(&kgo.Record{Topic: r.Topic, Key: changelog.MarkKey(mine.Name, "")})
	c.produce(r)
	if found := failing(t, others, other); len(found) > 0 {
		t.Errorf("check finds %+v", found)
	}
	reopened(t, others, other)
}

// The positions of two origins can't be ordered. So after a view is forgotten, its topic still can't be used for
// another origin.
func TestATopicThatHoldsAnotherOriginsRecordsIsRefused(t *testing.T) {
	c := newCluster(t)
	mine, sink, _, _ := c.rivals(t)
	apply(t, reopened(t, sink, mine), put(t, 1, 5, 10))
	if err := sink.Forget(t.Context(), mine.Name); err != nil {
		t.Fatal(err)
	}
	_, err := c.sink(t, mine).Open(t.Context(), "a", []*replicator.View{mine})
	if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "a record of another source") {
		t.Errorf("opened for another origin: %v", err)
	}
}
