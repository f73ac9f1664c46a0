package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A source changed servers more often than epochs can be counted. The command in the view's status fixes this.
func TestViewsThatNoEpochIsLeftForAreFilledAgain(t *testing.T) {
	t.Parallel()
	l := newPairLab(t)
	views, _, _ := strings.Cut(labelViews, "[views.cached]")
	l.configure(views, strings.ReplaceAll(itemsView, "NAME", "others"))
	l.must("run", "--until-caught-up")
	if err := os.RemoveAll(filepath.Join(l.dir, "state")); err != nil {
		t.Fatal(err)
	}
	l.exec("UPDATE replicator_views SET mark_order = mark_order + (511 << 54), " +
		"mark_token = CONCAT('{\"epoch\":511,', SUBSTRING(mark_token, 2))")
	l.failsOver()
	l.configure(views, strings.ReplaceAll(itemsView, "NAME", "others"))
	fence := l.labels("there")
	p := l.running()
	command := l.named("items", "changed servers", "others")
	l.failsWith("others", "changed servers")
	p.stop()
	l.typed(command + " --yes") // --yes, because there is no terminal for the question
	p = l.running()
	l.allRun()
	l.waitFor(fence)
	l.expect("SELECT DISTINCT label FROM items", "there")
	l.expect("SELECT DISTINCT label FROM others", "there")
	p.stop()
	l.must("verify")
}

const itemsView = `
[views.NAME]
from = "item"
sink = "main"
kind = "row"
create = true
fields = ["label"]
`
