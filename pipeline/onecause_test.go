package pipeline_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator/sinks/sinktest"
)

// With on_lost = "rebuild", a loss must be logged in one line with the names of all views, whenever it is found.
func TestALossThatIsMendedIsOneLineOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		began := func() (*started, *logText) {
			var log logText
			p := newPipeline(source, sink, store, "a", "b", "c", "d", "e")
			p.OnLost, p.Log = "rebuild", slog.New(slog.NewTextHandler(&log, nil))
			return start(p), &log
		}
		p, log := began()
		source.commit(rows(1)...)
		p.caughtUp(t, source)
		for _, found := range []string{"while the program runs", "at a start"} {
			if found == "at a start" {
				p.stop()
				<-p.done
				sink.Empty()
				p, log = began()
			} else {
				sink.Empty()
			}
			time.Sleep(time.Minute)
			p.caughtUp(t, source)
			told := 0
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "filled again") {
					told++
					if !strings.Contains(line, `views="[a b c d e]"`) {
						t.Errorf("%s: %s", found, line)
					}
				}
			}
			if told != 1 {
				t.Errorf("%s: it is told %d times:\n%s", found, told, log)
			}
			for _, view := range []string{"a", "e"} {
				holds(t, source, sink, view)
			}
		}
		p.stop()
		<-p.done
	})
}
