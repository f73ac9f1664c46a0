package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/canal"
	"replicator/pipeline"
	"replicator/server"
)

// asked fails the test unless the pipeline received exactly these requests.
func asked(t *testing.T, name string, f *fakeEngine, want ...string) {
	t.Helper()
	if !slices.Equal(f.asked, want) {
		t.Errorf("%s was asked %q, not %q", name, f.asked, want)
	}
}

func TestAFenceIsWaitedForByThePipelinesThatItConcerns(t *testing.T) {
	for _, c := range []struct {
		name                string
		fence               server.Fence
		views               []string
		east, west, eastern []string // requests of the pipelines; eastern is the other sink's pipeline of shard east
	}{
		{"of one shard, all views", server.Fence{At: "f:4", Source: "east"}, nil,
			[]string{"wait f:4"}, nil, []string{"wait f:4"}},
		{"of one shard, one view", server.Fence{At: "f:4", Source: "west"}, []string{"phones"},
			nil, []string{"wait f:4 phones"}, nil},
		{"views of two sinks", server.Fence{At: "f:4", Source: "east"}, []string{"profile", "emails"},
			[]string{"wait f:4 emails"}, nil, []string{"wait f:4 profile"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, east := keeping("main", "east", "emails", "phones")
			m, west := keeping("main", "west", "emails", "phones")
			n, eastern := keeping("cache", "east", "profile")
			s := serving(t, configured(t, twoShards), l, m, n)
			if err := s.Wait(t.Context(), c.fence, c.views); err != nil {
				t.Fatal(err)
			}
			asked(t, "east", east, c.east...)
			asked(t, "west", west, c.west...)
			asked(t, "eastern", eastern, c.eastern...)
		})
	}
}

func TestAFenceThatMakesNoSenseIsTheRequestsFault(t *testing.T) {
	l, east := keeping("main", "east", "emails")
	m, west := keeping("cache", "east", "profile")
	s := serving(t, configured(t, twoShards), l, m)
	if err := s.Wait(t.Context(), server.Fence{At: "f:4"}, nil); !errors.Is(err, server.ErrInvalid) ||
		!strings.Contains(err.Error(), "--source east") {
		t.Errorf("without a shard: %v", err)
	}
	sensible := server.Fence{At: "f:4", Source: "east"}
	if err := s.Wait(t.Context(), sensible, []string{"nobody"}); !errors.Is(err, server.ErrUnknown) {
		t.Errorf("of no view: %v", err)
	}
	asked(t, "before a sensible request, the pipeline", east)
	east.fails = fmt.Errorf("nonsense: %w", canal.ErrFence)
	if err := s.Wait(t.Context(), server.Fence{At: "nonsense", Source: "east"}, nil); !errors.Is(err, server.ErrInvalid) {
		t.Errorf("of no place: %v", err)
	}
	asked(t, "what would say the same", west)
}

func TestASourceIsKnownByItsShards(t *testing.T) {
	one, two := configured(t, cellViews), configured(t, twoShards)
	for _, c := range []struct {
		name string
		err  error
		says string
	}{
		{"no shards, none named", KnowsSource(one, ""), ""},
		{"no shards, one named", KnowsSource(one, "east"), "the source has no shards. Omit --source east"},
		{"one of two", KnowsSource(two, "west"), ""},
		{"none of two", KnowsSource(two, ""), "the shards east, west. Select one, as in --source east"},
		{"another one", KnowsSource(two, "south"), "no shard south. It has east, west"},
	} {
		if says := fmt.Sprint(c.err); c.says == "" && c.err != nil || !strings.Contains(says, c.says) {
			t.Errorf("%s: %v, not %q", c.name, c.err, c.says)
		}
	}
}

func TestARebuildGoesToThePipelinesOfItsViews(t *testing.T) {
	for _, c := range []struct {
		name, config string
		how          server.Rebuild
		main, cache  string
	}{
		{"beside the live views", cellViews, server.Rebuild{}, "rebuild emails+phones by swap ", "rebuild profile by swap "},
		{"in place", cellViews, server.Rebuild{InPlace: true},
			"rebuild emails+phones in place ", "rebuild profile in place "},
		{"from an offset", cellViews, server.Rebuild{From: "9"},
			"rebuild emails+phones in place " + canal.Offset("9"), "rebuild profile in place " + canal.Offset("9")},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, main := keeping("main", "", "emails", "phones")
			m, cache := keeping("cache", "", "profile")
			s := serving(t, configured(t, c.config), l, m)
			if err := s.Rebuild(t.Context(), "emails,profile,phones", c.how); err != nil {
				t.Fatal(err)
			}
			asked(t, "main", main, c.main)
			asked(t, "cache", cache, c.cache)
		})
	}
}

func TestARebuildThatCanNotBeginSaysWhoseFaultThatIs(t *testing.T) {
	l, f := keeping("main", "", "emails")
	s := serving(t, configured(t, cellViews), l)
	if err := s.Rebuild(t.Context(), "emails,nobody", server.Rebuild{From: "9"}); !errors.Is(err, server.ErrUnknown) {
		t.Errorf("of no view: %v", err)
	}
	asked(t, "before every view is known, the pipeline", f)
	l.source.(*fakeSource).offset = canal.ErrOffset
	if err := s.Rebuild(t.Context(), "emails", server.Rebuild{From: "x"}); !errors.Is(err, server.ErrInvalid) {
		t.Errorf("from no offset: %v", err)
	}
	for _, busy := range []error{replicator.ErrRebuilding, replicator.ErrPaused} {
		f.fails = busy
		err := s.Rebuild(t.Context(), "emails", server.Rebuild{})
		if !errors.Is(err, server.ErrBusy) || !errors.Is(err, busy) {
			t.Errorf("%v: %v", busy, err)
		}
	}
}

func TestAViewIsPausedInEveryPipelineThatKeepsIt(t *testing.T) {
	l, east := keeping("main", "east", "emails")
	m, west := keeping("main", "west", "emails")
	n, other := keeping("cache", "east", "profile")
	s := serving(t, configured(t, twoShards), l, m, n)
	if err := errors.Join(s.Pause(t.Context(), "emails"), s.Resume(t.Context(), "emails")); err != nil {
		t.Fatal(err)
	}
	asked(t, "east", east, "pause emails", "resume emails")
	asked(t, "west", west, "pause emails", "resume emails")
	asked(t, "another sink's", other)
	if err := s.Pause(t.Context(), "nobody"); !errors.Is(err, server.ErrUnknown) {
		t.Errorf("of no view: %v", err)
	}
}

// bury saves dead letters, given as pairs of view and key, in a service's store. It returns their ids.
func bury(t *testing.T, s *Service, source string, letters ...[2]string) (ids []string) {
	t.Helper()
	for _, l := range letters {
		key, err := replicator.MakeKey(l[1])
		if err != nil {
			t.Fatal(err)
		}
		err = s.store.Bury(t.Context(), []replicator.DeadLetter{{View: l[0], Source: source,
			Cell: replicator.Cell{Table: "cell", Column: "users", Key: key}, Reason: "too long"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for l, err := range s.store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, l.ID)
	}
	return ids
}

func TestARetryLooksAtTheCellsInTheirShard(t *testing.T) {
	l, east := keeping("main", "east", "emails", "phones")
	m, west := keeping("main", "west", "emails", "phones")
	s := serving(t, configured(t, twoShards), l, m)
	bury(t, s, "east", [2]string{"emails", "a"}, [2]string{"emails", "b"}, [2]string{"phones", "a"})
	bury(t, s, "west", [2]string{"emails", "z"})
	tried, left, err := s.Retry(t.Context(), server.Selection{View: "emails"})
	if err != nil || tried != 3 || left != 3 { // the fake pipeline only records requests, so all letters remain
		t.Errorf("%d tried, %d left, %v", tried, left, err)
	}
	asked(t, "east", east, "renew emails", "look emails a b")
	asked(t, "west", west, "renew emails", "look emails z")
}

// A pipeline's views may have different sessions. Each session has the tables' schemas of the time when it began, so a
// retry must restart the sessions of all its views.
func TestARetryRenewsTheSessionsOfAllItsViews(t *testing.T) {
	l, f := keeping("main", "", "emails", "phones")
	s := serving(t, configured(t, cellViews), l)
	bury(t, s, "", [2]string{"emails", "a"}, [2]string{"phones", "a"})
	if tried, _, err := s.Retry(t.Context(), server.Selection{All: true}); err != nil || tried != 2 {
		t.Errorf("%d tried, %v", tried, err)
	}
	asked(t, "main", f, "renew emails phones", "look emails a", "look phones a")
}

// An invalid cell would end the session that re-reads it. That would delay the view and the other views of the session.
func TestALookThatMakesNoSenseReachesNoPipeline(t *testing.T) {
	l, f := keeping("main", "", "emails")
	s := serving(t, configured(t, cellViews), l)
	key, err := replicator.MakeKey("a")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cell replicator.Cell
		says string
	}{
		"no key":         {replicator.Cell{Table: "cell", Column: "users", Key: "1"}, "unknown kind"},
		"no such table":  {replicator.Cell{Table: "nope", Column: "users", Key: key}, "view emails is not made from"},
		"another column": {replicator.Cell{Table: "cell", Column: "nope", Key: key}, "view emails is not made from"},
	} {
		good := replicator.Cell{Table: "cell", Column: "users", Key: key}
		err := s.Look(t.Context(), "emails", "", []replicator.Cell{good, c.cell})
		if !errors.Is(err, server.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	asked(t, "main", f)
}

// A paused view can't re-read its cells until it is resumed. The request fails at once instead of waiting for that.
func TestWhatIsPausedIsNotLookedAt(t *testing.T) {
	l, main := keeping("main", "", "emails", "phones")
	m, cache := keeping("cache", "", "profile")
	cache.views[0].State = replicator.StatePaused
	s := serving(t, configured(t, cellViews), l, m)
	bury(t, s, "", [2]string{"emails", "a"}, [2]string{"profile", "a"})
	_, _, retried := s.Retry(t.Context(), server.Selection{All: true})
	for what, err := range map[string]error{"retry": retried, "look": s.Look(t.Context(), "profile", "", nil)} {
		if !errors.Is(err, server.ErrBusy) || !errors.Is(err, replicator.ErrPaused) ||
			!strings.Contains(err.Error(), "view profile") {
			t.Errorf("%s: %v", what, err)
		}
	}
	asked(t, "main", main)
	asked(t, "cache", cache)
	if tried, _, err := s.Retry(t.Context(), server.Selection{View: "emails"}); err != nil || tried != 1 {
		t.Errorf("of the others: %d tried, %v", tried, err)
	}
}

func TestDeadLettersAreSelectedOrNothingIsDone(t *testing.T) {
	l, f := keeping("main", "", "emails", "phones")
	s := serving(t, configured(t, cellViews), l)
	ids := bury(t, s, "",
		[2]string{"emails", "a"}, [2]string{"emails", "b"}, [2]string{"phones", "a"}, [2]string{"gone", "a"})
	if _, _, err := s.Retry(t.Context(), server.Selection{IDs: []string{ids[0], "nobody"}}); !errors.Is(err,
		server.ErrUnknown) || !strings.Contains(err.Error(), `dead letter "nobody"`) {
		t.Errorf("an id that there is none of: %v", err)
	}
	if _, err := s.Drop(t.Context(), server.Selection{IDs: []string{"nobody", ids[0]}}); err == nil {
		t.Error("it dropped some of what was named")
	}
	asked(t, "the pipeline", f)
	if _, _, err := s.Retry(t.Context(), server.Selection{View: "gone"}); err == nil ||
		!strings.Contains(err.Error(), "no longer in the configuration") {
		t.Errorf("of a view that was removed: %v", err)
	}
	ofNoView := server.Selection{View: "nobody"}
	_, _, retried := s.Retry(t.Context(), ofNoView)
	_, dropped := s.Drop(t.Context(), ofNoView)
	_, listed := s.LetterGroups(t.Context(), "nobody")
	for what, err := range map[string]error{"retry": retried, "drop": dropped, "list": listed} {
		if !errors.Is(err, server.ErrUnknown) {
			t.Errorf("%s of a view that there never was: %v", what, err)
		}
	}
	if groups, err := s.LetterGroups(t.Context(), "gone"); err != nil || len(groups) != 1 {
		t.Errorf("of a view that was removed: %v, %v", groups, err)
	}
	for _, c := range []struct {
		which   server.Selection
		dropped int
	}{
		{server.Selection{IDs: []string{ids[1]}}, 1}, {server.Selection{View: "phones"}, 1}, {server.Selection{All: true}, 2},
	} {
		if n, err := s.Drop(t.Context(), c.which); err != nil || n != c.dropped {
			t.Errorf("%+v: %d dropped, %v", c.which, n, err)
		}
	}
}

// startingEngine returns ErrNotServing for its first requests.
type startingEngine struct {
	*fakeEngine
	before int
}

func (e *startingEngine) Rebuild(ctx context.Context, views []string, mode pipeline.RebuildMode, from string) error {
	if e.before--; e.before >= 0 {
		return fmt.Errorf("%w: the sink is down", replicator.ErrNotServing)
	}
	return e.fakeEngine.Rebuild(ctx, views, mode, from)
}

// A rebuild by the command itself must survive a short outage. Each pipeline starts it once.
func TestARebuildOfAProgramThatStartsAwaitsThatItCan(t *testing.T) {
	l, main := keeping("main", "", "emails")
	m, cache := keeping("cache", "", "profile")
	m.engine = &startingEngine{cache, 2}
	err := serving(t, configured(t, cellViews), l, m).beginRebuild(t.Context(), []string{"emails", "profile"},
		server.Rebuild{})
	if err != nil {
		t.Fatal(err)
	}
	asked(t, "main", main, "rebuild emails by swap ")
	asked(t, "cache", cache, "rebuild profile by swap ")
}
