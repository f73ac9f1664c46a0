package mysql

import (
	"reflect"
	"strings"
	"testing"

	"replicator"
)

// A state outlives the program that wrote it, so its bytes must not change (docs/upgrade.md).
func TestTheStoredFormOfAState(t *testing.T) {
	a := replicator.State{Version: 200, Order: 3, AsOf: 1 << 40}
	b := replicator.State{Version: replicator.NoVersion, Order: 5, AsOf: 5}
	rows := []row{{nil, int64(-1), uint64(1 << 63), 0.5, "text", []byte{0, 0xff}}}
	const storedRows = "\x01\x06ni\xff\xff\xff\xff\xff\xff\xff\xffu\x80\x00\x00\x00\x00\x00\x00\x00" +
		"f?\xe0\x00\x00\x00\x00\x00\x00s\x04textb\x02\x00\xff"
	if got := string(appendRows(nil, rows)); got != storedRows {
		t.Errorf("rows are written as\n%q, want\n%q", got, storedRows)
	}
	state := cellState{{view: 1, state: a, digest: 5}, {view: 300, state: a, digest: 1 << 63, kept: storedRows},
		{view: 9, state: b, digest: deadDigest}}
	const stored = "\x01" +
		"\xc9\x01\x03\x80\x80\x80\x80\x80\x20\x02" +
		"\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00" +
		"\xac\x02\x80\x00\x00\x00\x00\x00\x00\x00\x28" + storedRows +
		"\x00\x05\x05\x01" + "\x09\x00\x00\x00\x00\x00\x00\x00\x01\x00"
	if got := string(state.append(nil)); got != stored {
		t.Errorf("it is written as\n%q, want\n%q", got, stored)
	}
	if got, err := parseState(stored); err != nil || !reflect.DeepEqual(got, state) {
		t.Errorf("it is read as %+v (%v)", got, err)
	}
	if _, err := parseState("\x02" + stored[1:]); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("of a newer format: %v", err)
	}
	cell := replicator.Cell{Table: "cell", Key: "k\x00", Column: "users"}
	if e, c := entityID("shard", cell.Key), cellID(cell); e != "\x05shardk\x00" || c != "\x04cellusers" {
		t.Errorf("the state stands at %q, %q", e, c)
	}
}

// A mark outlives the program that wrote it, so its stored form must not change.
func TestTheStoredFormOfAMark(t *testing.T) {
	position := replicator.Position{Order: 8, Token: "tok"}
	for _, c := range []struct {
		stored storedMark
		at     replicator.Standing
	}{
		{storedMark{8, "tok", "filled"}, replicator.Standing{Position: position}},
		{storedMark{8, "tok\n" + `{"fill":{"cell":{"after":"k","rows":2,"total":9}},"from":4,"repair":true,"epoch":6,` +
			`"swapped":2}`, "filling"}, replicator.Standing{Position: position, FillFrom: 4, Repair: true, Epoch: 6, Swapped: 2,
			Fill: map[string]replicator.Progress{"cell": {After: "k", Rows: 2, Total: 9}}}},
	} {
		if got := storeMark(c.at); got != c.stored {
			t.Errorf("it is written as %+v, want %+v", got, c.stored)
		}
		if got, err := c.stored.standing(); err != nil || !reflect.DeepEqual(got, c.at) {
			t.Errorf("it is read as %+v (%v), want %+v", got, err, c.at)
		}
	}
}
