package service

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/server"
)

func TestAnExplanationSaysWhy(t *testing.T) {
	version := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name string
		e    Explanation
		says string
	}{
		{"right", Explanation{Holds: AsExpected, Exists: true}, "the view is right"},
		{"right or expired", Explanation{Holds: AsExpected, Exists: true, expires: true,
			Expected: []json.RawMessage{{}}}, "it has these entries, or they have expired"},
		{"rightly nothing", Explanation{Holds: AsExpected}, "no such cell, and the view has no entries of it"},
		{"another spelling", Explanation{Holds: AsExpected, spelt: "ANN"}, "spells the key ANN,"},
		{"dead, it can't be computed", Explanation{Holds: "dead", Problem: "not JSON"}, "dead letter: not JSON"},
		{"dead, refused by the sink", Explanation{Holds: "dead", Letters: []server.Letter{{ID: "80a0", Reason: "too long"}}},
			"dead letter 80a0: too long"},
		{"dead, by another state", Explanation{Holds: "dead"}, "dead letter: the sink rejected it"},
		{"not to be computed, and there", Explanation{Holds: "extra", Problem: "not JSON"}, "some: the view is behind"},
		{"planted", Explanation{Holds: "extra"}, "another program wrote the entries"},
		{"never applied", Explanation{Holds: "missing", Exists: true}, "not filled yet, or it was emptied"},
		{"behind", Explanation{Holds: "stale", Exists: true, Version: version(2), Applied: version(1)},
			"it has an older version"},
		{"behind or changed", Explanation{Holds: "stale", Exists: true, Version: version(2),
			Applied: version(1), placed: true},
			"behind (`replicator status`"},
		{"a delete that was not applied", Explanation{Holds: "extra", Applied: version(2)}, "the view is behind"},
		{"nothing, beside what differs", Explanation{Holds: "missing", ofAnother: true}, "cell of the key differs"},
		{"changed", Explanation{Holds: "stale", Exists: true, Version: version(2), Applied: version(2)},
			"the sink has applied this version"},
	} {
		if c.e.reason(); !strings.Contains(c.e.Why, c.says) {
			t.Errorf("%s: %q doesn't say %q", c.name, c.e.Why, c.says)
		}
	}
}

func TestAnEntityIsExplainedByTheShardsThatKnowIt(t *testing.T) {
	one := int64(1)
	for _, c := range []struct {
		name string
		all  []Explanation
		want []string
	}{
		{"none knows it", []Explanation{{Source: "a"}, {Source: "b"}}, []string{"a", "b"}},
		{"one has it", []Explanation{{Source: "a"}, {Source: "b", Exists: true}}, []string{"b"}},
		{"one had it", []Explanation{{Source: "a", Applied: &one}, {Source: "b"}}, []string{"a"}},
		{"one has one of its cells", []Explanation{{Source: "a", Exists: true}, {Source: "a"}, {Source: "b"}},
			[]string{"a", "a"}},
	} {
		var got []string
		for _, e := range ofShards(c.all) {
			got = append(got, e.Source)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}

func TestAnEntityInTwoShardsIsSaidToBeInBoth(t *testing.T) {
	all := ofShards([]Explanation{{Source: "a", Exists: true, Holds: "stale"},
		{Source: "b", Exists: true, Holds: AsExpected}})
	if len(all) != 2 || !strings.Contains(all[0].Why, "shards a and b have rows") || all[1].Why != "" {
		t.Errorf("%+v", all)
	}
}

func TestAKeyIsReadByItsColumnsType(t *testing.T) {
	for _, c := range []struct {
		typ, text string
		want      any
	}{
		{"bigint", "-5", int64(-5)},
		{"bigint unsigned", "18446744073709551615", uint64(18446744073709551615)},
		{"int(11)", "five", nil},
		{"int unsigned", "4294967295", int64(4294967295)},
		{"int unsigned", "-1", nil},
		{"int", "4294967295", nil},
		{"tinyint", "128", nil},
		{"bit(64)", "18446744073709551615", uint64(18446744073709551615)},
		{"bigint", "18446744073709551615", nil},
		{"binary(16)", "00000000-0000-0000-0000-0000000000ff", append(make([]byte, 15), 0xff)},
		{"varbinary(4)", "ff", []byte{0xff}},
		{"binary(16)", "zz", nil},
		{"binary(16)", "00000000-0000-0000-0000-0000000000", nil},
		{"binary(16)", "00000000-0000-0000-0000-0000000000ff00", nil},
		{"binary(16)", "", nil},
		{"varbinary(4)", "ffffffffff", nil},
		{"varchar(9)", "0123456789", nil},
		{"varchar(3)", "äöü", "äöü"},
		{"uuid", "00000000-0000-0000-0000-0000000000ff", "00000000-0000-0000-0000-0000000000ff"},
		{"decimal(12,2)", "1.50", "1.50"},
		{"decimal(12,2)", "a lot", nil},
		{"date", "z%:2020-01-02", nil},
		{"datetime(6)", "2026-11-26 07:00:00.5", "2026-11-26 07:00:00.5"},
		{"time", "", nil},
		{"varchar(9)", "5", "5"},
		{"char(36)", "00000000-0000-0000-0000-0000000000ff", "00000000-0000-0000-0000-0000000000ff"},
	} {
		got, err := keyValue(c.typ, c.text)
		if !reflect.DeepEqual(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%s %q: %#v, %v", c.typ, c.text, got, err)
		}
	}
}

func TestARowIsShownDecodedOrAsItIsStored(t *testing.T) {
	b, err := newBodies([]replicator.Table{{Name: "cell", Body: "body", Codec: "json"}, {Name: "plain"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		row  replicator.Row
		want map[string]any
	}{
		{"a body", replicator.Row{Cell: replicator.Cell{Table: "cell"}, Body: []byte(`{"a": "b"}`)},
			map[string]any{"body": replicator.ObjectOf(map[string]any{"a": "b"})}},
		{"no body", replicator.Row{Cell: replicator.Cell{Table: "cell"}}, map[string]any{"body": nil}},
		{"columns", replicator.Row{Cell: replicator.Cell{Table: "plain"}, Names: []string{"a"}, Columns: []any{int64(1)}},
			map[string]any{"body": replicator.ObjectOf(map[string]any{"a": int64(1)})}},
	} {
		line := map[string]any{}
		if b.show(line, &c.row); !reflect.DeepEqual(line, c.want) {
			t.Errorf("%s: %#v", c.name, line)
		}
	}
	line := map[string]any{}
	b.show(line, &replicator.Row{Cell: replicator.Cell{Table: "cell"}, Body: []byte("{")})
	if line["raw"] != "ew==" || line["error"] == nil || len(line) != 2 {
		t.Errorf("what can't be decoded: %v", line)
	}
}
