package survey_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"replicator/survey"
)

func gzipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // into memory
	_ = w.Close()
	return b.Bytes()
}

func TestTypesHaveRoomForWhatWasNotSampled(t *testing.T) {
	for _, c := range []struct {
		values  string // values of the property p, one for each body
		says    string
		indexed string // "": no index is suggested
	}{
		{`"a" "b"`, "string (length up to 1)", "VARCHAR(64)"},
		{`"学校学校学校学校学校学校学校学校学校学校学校学校学校学校学校学校学校" "b"`, "string (length up to 34)", "VARCHAR(128)"},
		{fmt.Sprintf("%q", strings.Repeat("x", 250)), "string (length up to 250)", "VARCHAR(500)"},
		{fmt.Sprintf("%q", strings.Repeat("x", 251)), "string (length up to 251)", ""},
		{`"71f0c4d2291844cca2df6f486e96e37c" "71f0c4d2-2918-44cc-a2df-6f486e96e37c"`, "uuid", "BINARY(16)"},
		{`"71f0c4d2291844cca2df6f486e96e37c" "no"`, "uuid; or string (length up to 32)", "VARCHAR(64)"},
		{`1 -5`, "integer (-5 to 1)", "BIGINT"},
		{`1 18446744073709551615`, "integer (1 to 18446744073709551615)", "BIGINT UNSIGNED"},
		{`-1 18446744073709551615`, "integer (-1 to 18446744073709551615)", "DECIMAL(65,0)"},
		{`1.50 12`, "integer (12 to 12); or decimal (digits: up to 1 before the point, 2 after)", "DECIMAL(40,20)"},
		{`1e400`, "float", ""},
		{`true false`, "boolean", "BOOLEAN"},
		{`1 "a"`, "string (length up to 1); or integer (1 to 1)", "VARCHAR(64)"},
		{`true 1`, "integer (1 to 1); or boolean", ""},
		{`{"x": null}`, "object", ""},
		{`[[1],null]`, "list", ""},
	} {
		source := table("t", "id", "id int AUTO", "body json")
		for i, v := range strings.Fields(strings.ReplaceAll(c.values, `": `, `":`)) {
			add(&source, "id,body", []string{fmt.Sprint(i), `{"p": ` + v + `}`})
		}
		text := written(t, source)
		if !strings.Contains(text, "#   p  "+c.says+"  ") {
			t.Errorf("%s: it doesn't say %s:\n%s", c.values, c.says, text)
		}
		if want := fmt.Sprintf(`types = { p = "%s" }`, c.indexed); strings.Contains(text,
			"[views.index_t_p]") != (c.indexed != "") || c.indexed != "" && !strings.Contains(text, want) {
			t.Errorf("%s: it lacks %s:\n%s", c.values, want, text)
		}
	}
}

func TestAnIndexFitsBesideALongKey(t *testing.T) {
	source := repeated(table("t", "k", "k varchar(700)", "body json"), 3, "k,body", "%d",
		`{"short": "x%d", "email": "e%d"}`)
	text := written(t, source)
	if !strings.Contains(text, "\n[views.index_t_short]\n") || strings.Contains(text, "index_t_email") {
		t.Error(text)
	}
}

func TestThePasswordIsReplacedByAVariable(t *testing.T) {
	for dsn, want := range map[string]string{
		"u:p@tcp(h:3306)/d":              `"u:${PW}@tcp(h:3306)/d"`,
		"u:p@ss:w/rd?@tcp(h:3306)/d?x=y": `"u:${PW}@tcp(h:3306)/d?x=y"`,
		"u@tcp(h:3306)/d":                `"u@tcp(h:3306)/d"`,
		"u:@tcp(h:3306)/d":               `"u:@tcp(h:3306)/d"`,
		"tcp(h:3306)/d":                  `"tcp(h:3306)/d"`,
		"/d":                             `"/d"`,
		"u:${p}@unix(/run/my.sock)/d":    `"u:${PW}@unix(/run/my.sock)/d"`,
		`u\x:p@tcp(h)/${d}`:              `"u\\x:${PW}@tcp(h)/$${d}"`,
	} {
		var b strings.Builder
		if err := survey.Write(&b, &survey.Database{DSN: survey.HidePassword(dsn, "PW")}, nil); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "\ndsn = "+want+"\n") {
			t.Errorf("%s: it lacks %s:\n%s", dsn, want, b.String())
		}
		if exports := strings.Contains(b.String(), "export PW="); exports != strings.Contains(want, "PW") {
			t.Errorf("%s: says how to set the variable: %v", dsn, exports)
		}
	}
}
