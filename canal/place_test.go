package canal

import (
	"errors"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A text that is not a log position may be meant for either kind of server, so the error names both forms of GTIDs.
func TestWhatIsNoPlaceIsToldBothFormsOfGTIDs(t *testing.T) {
	_, covers := Covers(`{"file":"binlog.000001","pos":4}`, "zz")
	for text, err := range map[string]error{"x": IsFence("x"), "binlog.x:end": IsFence("binlog.x:end"), "zz": covers} {
		if !errors.Is(err, ErrFence) || !strings.Contains(err.Error(), `"`+text+`" `) ||
			!strings.Contains(err.Error(), "FILE:POS") || !strings.Contains(err.Error(), "uuid:1-3 (MySQL)") ||
			!strings.Contains(err.Error(), "domain-server-sequence (MariaDB)") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"binlog.000001:4", "0-1-2", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3"} {
		if err := IsFence(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Right after a log has begun, there is no transaction before its end, and on MariaDB no GTID. Reading can begin there
// anyway.
func TestReadingBeginsBeforeTheFirstTransaction(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		w := &world{bench: newBench(t, servertest.Own(t, kind)), gtid: true}
		w.exec("CREATE DATABASE app", strings.Replace(cellDDL, "TABLE cell", "TABLE app.cell", 1))
		w.src = w.source(appTable())
		w.write(2)
		w.reset()
		bare := w.latest(w.src)
		x := w.read(w.open(w.src, bare))
		x.upTo(bare)
		filled := x.reader.Position(x.last())
		place := strings.Fields(Describe(bare.Token))[0]
		if ok, err := x.reader.Includes(testContext(t), filled, place); !ok || err != nil {
			t.Errorf("the start includes itself: %t, %v", ok, err)
		}
		w.write(1)
		if got := x.upTo(w.latest(w.src)); len(got) != 1 {
			t.Errorf("read %v", shown(got))
		}
		x.end()
		at := map[string]replicator.Position{"bare": bare, "filled": filled}
		w.expect("after a transaction", at, theSame)
		for name, p := range at {
			if got := w.changes(w.src, p); len(got) != 1 {
				t.Errorf("from %s: %v", name, shown(got))
			}
		}
	})
}
