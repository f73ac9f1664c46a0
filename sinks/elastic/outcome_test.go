package elastic

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/sinks/judge"
)

// If the document's id can't be made, Apply rejects the value, and Compare reports it as a dead letter. A delete is not
// rejected, because no such document can exist.
func TestAValueThatNoDocumentCanBeOf(t *testing.T) {
	k := testKeeper(false)
	k.view.Key = "{x}"
	noID := errors.New("no id")
	k.documentID = func(*replicator.View, replicator.Cell) (string, string, error) { return "", "", noID }
	target := testTarget("", k)
	shows, nothing := testOp(t, "a", 5, 50, 0, int64(1), nil), testOp(t, "a", replicator.NoVersion, 0, 60)
	broken := testOp(t, "a", 5, 50, 0)
	broken.Values[0].Err = errors.New("no such codec")
	b := target.gather([]replicator.Op{shows, nothing, broken})
	want := replicator.Applied{Rejected: []replicator.Rejected{{Op: 0, Err: noID}, {Op: 2, Err: broken.Values[0].Err}}}
	if got := b.outcome(); !reflect.DeepEqual(got, want) || len(b.documents) > 0 {
		t.Errorf("the outcome is %+v", got)
	}
	for i, op := range []int{0, 2} {
		d := b.dead(&b.unplaced[i], judge.Unseen)
		if d.Op != op || d.Kind != replicator.Dead || d.Err != want.Rejected[i].Err ||
			!slices.Equal(d.States, []replicator.State{replicator.Unseen}) {
			t.Errorf("compared it is %+v", d)
		}
	}
}

// If an index refuses a field, only the cell that provides the field becomes a dead letter. That cell may have no op in
// the batch: its field may be shown only because another cell was deleted.
func TestTheCellThatGivesARefusedFieldIsRejected(t *testing.T) {
	const stands = `{"x":"first","y":2,"_replicator":{"cells":{` +
		`"cell.a":{"k":"aYAAAAAAAAAH","v":5,"o":50,"f":{"x":"first"}},` +
		`"cell.b":{"k":"aYAAAAAAAAAH","v":6,"o":60,"f":{"x":1,"y":2}}}}}`
	const without = `{"_replicator":{"hidden":true,"cells":{` +
		`"cell.a":{"k":"aYAAAAAAAAAH","v":-1,"o":70,"a":70},"cell.b":{"k":"aYAAAAAAAAAH","v":6,"o":60,"d":true}}}}`
	refused := &failure{Status: http.StatusBadRequest, reason: reason{Reason: "failed to parse field [x] of type [text]"}}
	for _, c := range []struct {
		name, says, left string
		op               replicator.Op
	}{
		{"its own", "x is a number",
			`{"x":1,"y":2,"_replicator":{"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":7,"o":70,"d":true},` +
				`"cell.b":{"k":"aYAAAAAAAAAH","v":6,"o":60,"f":{"x":1,"y":2}}}}}`,
			testOp(t, "a", 7, 70, 0, int64(9), nil)},
		{"another's", "the index refuses a value of another cell of this document, cell.b", without,
			testOp(t, "a", replicator.NoVersion, 0, 70)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := testTarget("", testKeeper(true)).gather([]replicator.Op{c.op})
			d := b.documents[0]
			d.known, d.exists, d.source = true, true, []byte(stands)
			if err := b.decide(d); err != nil {
				t.Fatal(err)
			}
			d.failure = refused
			if wait, err := d.refuse(); err != nil || wait != 0 {
				t.Fatal(wait, err)
			}
			if err := b.decide(d); err != nil {
				t.Fatal(err)
			}
			got := b.outcome()
			if len(got.Rejected) != 1 || len(got.Stale) > 0 || !strings.Contains(got.Rejected[0].Err.Error(), c.says) {
				t.Errorf("the outcome is %+v", got)
			}
			if text := string(d.keeper.render(nil, d.next)); text != c.left {
				t.Errorf("written is\n%s\nand not\n%s", text, c.left)
			}
		})
	}
}
