package mysql

import (
	"encoding/hex"
	"testing"

	"replicator"
)

// What is stored was stored by older versions, too: not a byte of it may become another one.
func TestStoredFormsStayAsTheyAre(t *testing.T) {
	const storedRows = "02" + "06" + "6e" + "69ffffffffffffffff" + "758000000000000000" +
		"663fe0000000000000" + "730474657874" +
		"620200ff" + "00"
	rows := appendRows(nil, []row{{nil, int64(-1), uint64(1 << 63), 0.5, "text", []byte{0, 0xff}}, {}})
	same(t, "rows", string(rows), storedRows)
	same(t, "a place among rows", string(appendRows(nil, []row{{[]byte{1}}})), "01"+"01"+"620101")

	seen := replicator.State{Version: 300, Order: 7, AsOf: 5}
	state := cellState{
		{view: 1, state: seen, digest: 5},
		{view: 300, state: replicator.Unseen, digest: noDigest},
		{view: 2, state: seen, digest: 1 << 63, kept: string(rows)},
	}
	same(t, "a state", string(state.append(nil)), "01"+
		"ad020705"+"02"+"01"+"0000000000000005"+"00"+"02"+"8000000000000000"+"29"+storedRows+
		"000000"+"01"+"ac02"+"0000000000000000"+"00")

	key, err := replicator.MakeKey(int64(7), "k")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "an entity", entityID("shard", key), "05"+"7368617264"+"69800000000000000773016b")
	same(t, "a cell", cellID(replicator.Cell{Table: "cell", Column: "users"}), "0463656c6c"+"7573657273")
	if got := digest(append(salt("0123456789abcdef"), rows...)); got != 0x731354fd00064b21 {
		t.Errorf("a digest is %x", got)
	}
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if text := hex.EncodeToString([]byte(got)); text != want {
		t.Errorf("%s is stored as\n%s, and not\n%s", what, text, want)
	}
}

func TestMarksAreStoredAsTheyWere(t *testing.T) {
	at := replicator.Position{Order: 5, Token: "p"}
	fill := map[string]replicator.Progress{"cell": {After: "a", Rows: 3, Total: 9}}
	tests := []struct {
		standing replicator.Standing
		want     storedMark
	}{
		{replicator.Standing{Position: at}, storedMark{5, "p", "filled"}},
		{replicator.Standing{Position: at, Epoch: 8, Swapped: 4}, storedMark{5, "p\n" + `{"epoch":8,"swapped":4}`, "filled"}},
		{
			replicator.Standing{Position: at, Fill: fill, FillFrom: 3, Repair: true, Epoch: 8},
			storedMark{5, "p\n" +
				`{"fill":{"cell":{"after":"a","rows":3,"total":9}},"from":3,"repair":true,"epoch":8}`, "filling"},
		},
	}
	for _, test := range tests {
		stored := storeMark(test.standing)
		if stored != test.want {
			t.Errorf("%+v is stored as %+v", test.standing, stored)
		}
		if back, err := stored.standing(); err != nil || back.Below(test.standing) || test.standing.Below(back) {
			t.Errorf("%+v is read as %+v (%v)", stored, back, err)
		}
	}
	for text, want := range map[storedMark]replicator.Standing{
		{5, "p", "swapping"}: {Position: at},
		{0, "", "filling"}:   {Fill: map[string]replicator.Progress{}}, // opened, and never marked
	} {
		if back, err := text.standing(); err != nil || back.Filling() != want.Filling() || back.Position != want.Position {
			t.Errorf("%+v is read as %+v (%v)", text, back, err)
		}
	}
}
