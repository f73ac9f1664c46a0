package main

import (
	"fmt"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// A fill that would make dead letters of a great share of the rows stops, and that view alone, until somebody allows
// them or mends what is wrong.
func TestAFillStopsAtItsShareOfDeadLetters(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	for i := range 40 {
		phone := fmt.Sprint(i)
		if i%4 == 0 {
			phone = `"no number"`
		}
		l.put(string(rune('0'+i)), 1, fmt.Sprintf(`{"email": "%d@x.org", "phone": %s}`, i, phone))
	}
	views := []string{source, program, mainSink, emailView, phoneView}
	l.configure(append(views, "[limits]\ndead_letters = \"20%\"\n")...)
	p := l.running()
	l.failsWith("index_users_phone", "10 dead letters after 40 rows of table cell", `dead_letters = "20%"`,
		"`replicator deadletters list --view index_users_phone`")
	l.caughtUp("index_users_email")
	l.expect("SELECT COUNT(*) FROM index_users_email", "40")
	p.stop()
	if r := l.run("run", "--until-caught-up"); r.code != 1 || !strings.Contains(r.errors, "the fill stopped") {
		t.Errorf("a start goes on with it: %+v", r)
	}
	l.configure(append(views, "[limits]\ndead_letters = \"25%\"\n")...)
	l.must("run", "--until-caught-up")
	l.expect("SELECT COUNT(*) FROM index_users_phone", "30")
}
