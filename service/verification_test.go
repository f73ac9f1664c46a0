package service

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers/servertest"
)

// A view differs from the source because it has an error and can't catch up. The verification must report this error
// instead of a timeout.
func TestAVerificationOfAViewThatCantCatchUpSaysWhatIsWrongWithIt(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Replicator", "1")
		fmt.Fprint(w, `{"views": [{"view": "emails", "state": "failed", "error": "sink main: no space left"},
			{"view": "emails", "source": "another", "state": "failed", "error": "another one's"}]}`)
	})
	mux.HandleFunc("/api/v1/wait", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	running := httptest.NewServer(mux)
	defer running.Close()

	source := servertest.MySQL(t)
	cfg := configured(t, strings.NewReplacer("127.0.0.1:1)/app", source.Addr()+")/"+servertest.Database(t, source),
		"nobody@", "root@", `listen = ""`, fmt.Sprintf("listen = %q", running.Listener.Addr())).Replace(cellViews))
	v := Verification{Setup: Setup{Config: cfg, Log: slog.New(slog.DiscardHandler)}}
	in := v.inspector()
	o, err := in.prepare(cfg.Source.Shards[0], []*replicator.View{cfg.View("emails")})
	if err != nil {
		t.Fatal(err)
	}
	fence, err := v.fence(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	if err := fence(t.Context()); err == nil || err.Error() != "view emails: sink main: no space left" ||
		time.Since(asked) > fenceTime/2 {
		t.Errorf("after %s: %v", time.Since(asked), err)
	}
	if err := in.close(); err != nil {
		t.Error(err)
	}
}

// A repair can run while no process runs. Then it removes dead letters from the store itself.
func TestALetterThatARepairEndsIsRemovedWithoutAProcess(t *testing.T) {
	cfg := configured(t, twoShards)
	v := Verification{Setup: Setup{Config: cfg, Log: slog.New(slog.DiscardHandler)}}
	key, _ := replicator.MakeKey("a")
	cell := replicator.Cell{Table: "cell", Column: "users", Key: key}
	raise := func() {
		t.Helper()
		if err := v.raise(t.Context(), "emails", "west", []replicator.Cell{cell}); err != nil {
			t.Error(err)
		}
	}
	raise() // there is no state yet
	err := alone(t.Context(), v.Setup, nil)
	if _, begun := os.Stat(cfg.Checkpoint.Path); err != nil || !errors.Is(begun, fs.ErrNotExist) {
		t.Errorf("a state was begun: %v, %v", begun, err)
	}
	store, err := openStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"east", "west"} {
		err = errors.Join(err, store.Bury(t.Context(), []replicator.DeadLetter{{View: "emails", Source: source, Cell: cell}}))
	}
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	raise()
	var left []string
	err = EachLetter(t.Context(), cfg, "emails", func(l replicator.DeadLetter) error {
		left = append(left, l.Source)
		return nil
	})
	if err != nil || !slices.Equal(left, []string{"east"}) {
		t.Errorf("the letters that are left are of %v, %v", left, err)
	}
}
