package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/config"
	"replicator/verify"
)

// countedSink records which sinks are opened and closed. Its Marks always fails.
type countedSink struct {
	replicator.Sink
	name  string
	noted *[]string
}

func (s countedSink) Marks(context.Context, string) ([]replicator.Mark, error) {
	return nil, errors.New("no marks of " + s.name)
}

func (s countedSink) Close() error {
	*s.noted = append(*s.noted, "close "+s.name)
	return nil
}

func TestVerifyOpensEachSinkOnceWhateverTheNumberOfViews(t *testing.T) {
	var noted []string
	v := Verification{Setup: Setup{Config: configured(t, twoShards), Log: slog.New(slog.DiscardHandler)}}
	v.OpenSink = func(_ *config.Config, sink *config.Sink, _ *slog.Logger) (replicator.Sink, error) {
		if sink.Name == "cache" {
			return nil, errors.New("no cache")
		}
		noted = append(noted, "open "+sink.Name)
		return countedSink{name: sink.Name, noted: &noted}, nil
	}
	results, err := v.Run(t.Context(), []string{"emails", "profile", "phones"})
	if want := []string{"open main", "close main"}; !slices.Equal(noted, want) {
		t.Errorf("%q, not %q", noted, want)
	}
	if n := strings.Count(err.Error(), "no marks of main"); len(results) > 0 || n != 2 {
		t.Errorf("%d views of 2 failed with their sink: %v, %+v", n, err, results)
	}
	if !strings.Contains(err.Error(), "no cache") {
		t.Errorf("a sink that can't be opened is passed over: %v", err)
	}
}

// Opening a view in a sink requires the source's tables. If the source is down, the error must name the source, not the
// sink.
func TestASourceThatIsDownIsNotTakenForTheSink(t *testing.T) {
	in := (Setup{Config: configured(t, twoShards), Log: slog.New(slog.DiscardHandler), OpenSink: inMemory}).inspector()
	_, err := in.inspect(t.Context(), in.Config.Source.Shards[0], in.Config.View("emails"))
	if err == nil || !strings.HasPrefix(err.Error(), "source east: dial tcp 127.0.0.1:1: ") ||
		!strings.Contains(err.Error(), "the server runs at this address") || errors.As(err, new(errUnopened)) {
		t.Errorf("it says %v", err)
	}
	if err := in.close(); err != nil {
		t.Error(err)
	}
}

// spread is the settings of a view in several databases.
type spread struct{}

func (spread) Spread() bool { return true }

func TestVerifyOpensNothingThatOpeningWouldBeginAnew(t *testing.T) {
	marks := []replicator.Mark{{View: "other", Fingerprint: "2"}, {View: "v", Fingerprint: "1"}}
	for _, c := range []struct {
		name    string
		view    replicator.View
		marks   []replicator.Mark
		refused bool
	}{
		{"a view as it was filled", replicator.View{Name: "v", Kind: "counter", Fingerprint: "1"}, marks, false},
		{"a view that was defined anew", replicator.View{Name: "v", Kind: "index", Fingerprint: "2"}, marks, true},
		{"a row that was never filled", replicator.View{Name: "v", Kind: "row", Fingerprint: "1"}, nil, false},
		{"a row that some shard does not know",
			replicator.View{Name: "v", Kind: "row", Fingerprint: "1", Settings: spread{}}, marks[:1], true},
		{"documents whose index is gone", replicator.View{Name: "v", Kind: "document", Fingerprint: "1"}, nil, true},
		{"a counter that was never filled", replicator.View{Name: "v", Kind: "counter", Fingerprint: "1"}, marks[:1], true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := mayLookAt(&c.view, c.marks); errors.Is(err, verify.ErrUnverifiable) != c.refused {
				t.Errorf("it says %v", err)
			}
		})
	}
}
