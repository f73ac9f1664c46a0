package elastic

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const (
	someFound = `{"docs":[
		{"_index":"v-r1","_id":"a\"}]","_version":3,"_seq_no":7,"_primary_term":1,"found":true,` +
		`"_source":{"x":"]}\\","y":[1,{"z":null}],"_replicator":{"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":5,"o":50}}}}},
		{"_index":"v-r1","_id":"b","found":false} ,
		{"_index":"v-r1","_id":"c","error":{"type":"t","reason":"r","caused_by":{"type":"u","reason":"s"}}}
	]}`
	someWritten = `{"items":[{"create":{"_seq_no":-2,"_primary_term":1,"status":201}},` +
		`{"index":{"status":409,"error":{"type":"version_conflict_engine_exception","reason":"[a]: \"x\" {"}}},` +
		`{"index":{"_seq_no":9223372036854775807,"_primary_term":2,"status":200,"new":[[],{}]}}]}`
	someState = `{"hidden":true,"cells":{"cell.a":{"k":"aYAAAAAAAAAH","v":-1,"o":60,"a":60,"d":true},` +
		`"cell.b@west%2F2":{"k":"","v":6,"o":60,"f":{"x":1,"y":"\u00e9"}}}}`
)

// The scanner must decode an answer like encoding/json, or refuse it. encoding/json decodes the refused answers.
func TestAnswersAreReadAsJSON(t *testing.T) {
	compare := func(what string, got any, err error, want any, wantErr error) {
		t.Helper()
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v (%v), want %+v (%v)", what, got, err, want, wantErr)
		}
	}
	variants := func(text string) []string {
		list := []string{text, text + " \n", text + "x", strings.ReplaceAll(text, "{", "{ "),
			strings.Replace(text, `"status"`, `"\u0073tatus"`, 1), strings.Replace(text, "7", "7.5", 1),
			strings.Replace(text, "true", "null", 1), strings.Replace(text, "[", "null,[", 1)}
		for i := range text {
			list = append(list, text[:i])
		}
		return list
	}
	for _, text := range variants(someFound) {
		var want struct{ Docs []foundItem }
		wantErr := json.Unmarshal([]byte(text), &want)
		got, err := readAnswer([]byte(text), 3)
		compare(text, got, err, want.Docs, wantErr)
	}
	for _, text := range variants(someWritten) {
		var whole struct {
			Items []map[string]writtenItem `json:"items"`
		}
		wantErr := json.Unmarshal([]byte(text), &whole)
		var want []writtenItem
		for _, item := range whole.Items {
			for _, written := range item {
				want = append(want, written)
			}
		}
		got, err := writeAnswer([]byte(text), 3)
		compare(text, got, err, want, wantErr)
	}
	for _, text := range variants(someState) {
		text = `{"x":1,"_replicator":` + text + `}`
		var want struct {
			State storedState `json:"_replicator"`
		}
		wantErr := json.Unmarshal([]byte(text), &want)
		got, err := readState([]byte(text))
		compare(text, got, err, want.State, wantErr)
	}
}

// readAnswers makes the answers to reading and writing 800 documents. It returns a function that decodes these answers.
func readAnswers(t testing.TB) func() {
	var found, written strings.Builder
	for i := range 800 {
		fmt.Fprintf(&found, `,{"_index":"users-r1","_id":"%032x","_version":1,"_seq_no":%d,"_primary_term":1,"found":true,`+
			`"_source":{"email":"user-%d@example.org","city":"a city with a name","n":%d,"_replicator":{"cells":{"cell.users":`+
			`{"k":"aYAAAAAAAAAH","v":%d,"o":%d}}}}}`, i, i, i, i, i, i)
		fmt.Fprintf(&written, `,{"index":{"_seq_no":%d,"_primary_term":1,"status":200}}`, i)
	}
	reads := []byte(`{"docs":[` + found.String()[1:] + `]}`)
	writes := []byte(`{"items":[` + written.String()[1:] + `]}`)
	return func() {
		docs, err := readAnswer(reads, 800)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			if _, err := readState(d.Source); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := writeAnswer(writes, 800); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkAnswers(b *testing.B) {
	read := readAnswers(b)
	b.ReportAllocs()
	for b.Loop() {
		read()
	}
}

// The number of allocations for decoding the answers does not depend on the machine.
func TestWhatAnswersCost(t *testing.T) {
	const most = 5.1 // per document: its state, and its cell's name and key
	if got := testing.AllocsPerRun(5, readAnswers(t)) / 800; got > most {
		t.Errorf("%v allocations a document, at most %v so far", got, most)
	}
}
