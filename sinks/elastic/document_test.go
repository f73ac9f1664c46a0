package elastic

import (
	"encoding/json"
	"testing"

	"replicator"
	"replicator/sinks/judge"
)

func FuzzSlotNamesTellCellsApart(f *testing.F) {
	f.Add("", "cell", "users", "", "cell", "users")
	f.Add("a", "cell", "x@b", "a@b", "cell", "x")
	f.Add("a", "t", "\xff.%", "", "t", "\xfe")
	f.Fuzz(func(t *testing.T, s1, t1, c1, s2, t2, c2 string) {
		a, b := replicator.Cell{Table: t1, Column: c1}, replicator.Cell{Table: t2, Column: c2}
		first, second := slotName(s1, a), slotName(s2, b)
		if (first == second) != (s1 == s2 && a == b) {
			if table := t1 + t2; !json.Valid([]byte(`"`+table+`"`)) || len(table) == 0 || containsDot(table) {
				t.Skip("no name of a table")
			}
			t.Errorf("%q and %q", first, second)
		}
		source, c, ok := cellOf(first, "")
		if !containsDot(t1) && (!ok || source != s1 || c != a) {
			t.Errorf("%q is read as %q %q", first, source, c)
		}
	})
}

func containsDot(s string) bool {
	for _, r := range s {
		if r == '.' {
			return true
		}
	}
	return false
}

func testKeeper(merged bool) *keeper {
	k := &keeper{merged: merged, view: &replicator.View{Name: "v",
		From:   []replicator.Feed{{Table: "cell", Column: "a"}, {Table: "cell", Column: "b"}},
		Fields: []replicator.Field{{Name: "x"}, {Name: "y"}}}}
	for _, f := range k.view.Fields {
		k.names = append(k.names, append(replicator.AppendJSON(nil, f.Name), ':'))
	}
	return k
}

func TestADocumentReadsBackAsItWasWritten(t *testing.T) {
	for _, merged := range []bool{false, true} {
		k := testKeeper(merged)
		state := func(version, order, asOf int64) replicator.State {
			return replicator.State{Version: version, Order: order, AsOf: asOf}
		}
		c := contents{{name: "cell.b", key: "i\x00\xff", fields: [][]byte{[]byte("1"), []byte(`{"deep":[1.10]}`)},
			Known: judge.Known{Shown: true, State: state(1<<62+1, 1<<61+1, 3)}}}
		if merged {
			c = append(c,
				&slot{name: "cell.a", key: "i", fields: [][]byte{[]byte(`"first"`), nil},
					Known: judge.Known{Shown: true, State: state(replicator.NoVersion, 2, 0)}},
				&slot{name: "cell.gone", key: "i", Known: judge.Known{State: state(replicator.NoVersion, 2, 2)}})
		}
		k.sort(c)
		text := k.render(nil, c)
		back := k.parse(text)
		for _, s := range back {
			if err := k.complete(s, text); err != nil {
				t.Fatal(err)
			}
		}
		k.sort(back)
		if again := k.render(nil, back); string(again) != string(text) {
			t.Errorf("%s is written again as\n%s", text, again)
		}
	}
}

// A document that a user edited may have its members in any order, and fields that look like the state.
func TestTheStateIsFoundWhereverItStands(t *testing.T) {
	const state = `{"cells":{"cell.a":{"k":"aQ==","v":7,"o":2}}}`
	for _, source := range []string{
		`{"x":1,"_replicator":` + state + `}`,
		`{"_replicator":` + state + `}`,
		`{"_replicator":` + state + `,"x":1}`,
		`{"_replicator":` + state + `,"x":{"_replicator":{"cells":{"cell.a":{"v":8}}}}}`,
		`{"_replicator":` + state + `,"x":"\"_replicator\":{\"cells\":{}}"}`,
		"{\n  \"_replicator\" : " + state + "\n}",
	} {
		c := testKeeper(false).parse([]byte(source))
		if c.find("cell.a") == nil || c.known("cell.a").State.Version != 7 {
			t.Errorf("%s is read as %v", source, c)
		}
	}
}

func FuzzParseNeverPanicsAndKeepsWhatItReads(f *testing.F) {
	f.Add([]byte(`{"x":1,"_replicator":{"cells":{"cell.a":{"k":"aQ==","v":1,"o":2,"a":3,"f":{"x":1}}}}}`))
	f.Add([]byte(`{"_replicator":{"hidden":true,"cells":{"cell.a":null}}}`))
	f.Fuzz(func(t *testing.T, source []byte) {
		if !json.Valid(source) {
			return // the cluster's answers are valid JSON
		}
		for _, merged := range []bool{false, true} {
			k := testKeeper(merged)
			c := k.parse(source)
			for _, s := range c {
				if err := k.complete(s, source); err != nil {
					t.Fatalf("%q can be read in part: %v", source, err)
				}
			}
			if len(c) == 0 || !merged && len(c) > 1 {
				continue
			}
			text := k.render(nil, c)
			if !json.Valid(text) {
				t.Fatalf("%q is written as %q", source, text)
			}
		}
	})
}

func TestReasonsShowNoValues(t *testing.T) {
	for _, c := range []struct{ answer, want string }{
		{`{"error":{"type":"document_parsing_exception","reason":"[1:9] failed to parse field [n] of type [long] in document with id 'hunter2'. Preview of field's value: 'hunter2'","caused_by":{"type":"illegal_argument_exception","reason":"For input string: \"hunter2\""}}}`,
			"the cluster answers 400 document_parsing_exception: the value does not fit field [n] of type [long]"},
		{`{"error":{"type":"illegal_argument_exception","reason":"something with hunter2"}}`,
			"the cluster answers 400 illegal_argument_exception"},
		{`{"error":{"type":"document_parsing_exception","reason":"[1:2] failed to parse: hunter2","caused_by":{"type":"illegal_argument_exception","reason":"Limit of total fields [1000] has been exceeded while adding new fields [1]"}}}`,
			"the cluster answers 400 document_parsing_exception: Limit of total fields [1000] has been exceeded. Set " +
				"index.mapping.total_fields.limit in a settings_file, or use `fields` to leave out members that need no search"},
		{`{"error":{"type":"illegal_argument_exception","reason":"mapper [x] cannot be changed from type [text] to [long]"}}`,
			"the cluster answers 400 illegal_argument_exception: mapper [x] cannot be changed from type [text] to [long]"},
		{`{"error":{"type":"illegal_argument_exception","reason":"hunter2: mapper [x] cannot be changed from type [text] to [long]"}}`,
			"the cluster answers 400 illegal_argument_exception"},
		{`{"error":{"type":"es_rejected_execution_exception","reason":"rejected execution of TimedRunnable{original=` +
			`org.elasticsearch.action.ActionRunnable: BulkShardRequest [[v-r1][0]] containing [index {[v-r1][1], ` +
			`source[{\"x\":\"hunter2\"}]}], creationTimeNanos=1} on ` +
			`TaskExecutionTimeTrackingEsThreadPoolExecutor[name = node-1/write, queue capacity = 10000, ` +
			`task execution EWMA = 2.2ms, org.elasticsearch.common.util.concurrent.` +
			`TaskExecutionTimeTrackingEsThreadPoolExecutor@1f[Running, pool size = 1, queued tasks = 10000]]"}}`,
			"the cluster answers 400 es_rejected_execution_exception: " +
				"the thread pool node-1/write is full (queue capacity 10000)"},
		{`{"error":{"type":"es_rejected_execution_exception","reason":"rejected execution of primary operation [` +
			`coordinating_and_primary_bytes=7, all_bytes=7, primary_operation_bytes=5, max_primary_bytes=9]"}}`,
			"the cluster answers 400 es_rejected_execution_exception: the memory for writes, " +
				"indexing_pressure.memory.limit, has no room (operation_bytes=5, max_primary_bytes=9)"},
		{`{"error":{"type":"rejected_execution_exception","reason":"rejected execution of primary operation [` +
			`coordinating_and_primary_bytes=7, all_bytes=7, primary_operation_bytes=5, max_primary_bytes=9]"}}`, // OpenSearch
			"the cluster answers 400 rejected_execution_exception: the memory for writes, " +
				"indexing_pressure.memory.limit, has no room (operation_bytes=5, max_primary_bytes=9)"},
		{`{"error":{"type":"mapper_parsing_exception","reason":"failed to parse field [n] of type [long] in document with id 'hunter2'. Preview of field's value: 'hunter2'"}}`,
			"the cluster answers 400 mapper_parsing_exception: the value does not fit field [n] of type [long]"},
		{`no JSON with hunter2`, "the cluster answers 400 Bad Request"},
		{`{"error":"text with hunter2"}`, "the cluster answers 400 Bad Request"},
	} {
		if got := refused(400, []byte(c.answer)).Error(); got != c.want {
			t.Errorf("%s\n is told as %s", c.answer, got)
		}
	}
}
