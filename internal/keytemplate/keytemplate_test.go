package keytemplate

import (
	"slices"
	"strings"
	"testing"
)

func TestATemplateIsTextAndPaths(t *testing.T) {
	for _, c := range []struct {
		template string
		parts    []Part
		tail     string
	}{
		{"", nil, ""},
		{"all", nil, "all"},
		{"user:{id}", []Part{{"user:", "id", ""}}, ""},
		{"{$row_key:uuid}/{a.b}!", []Part{{"", "$row_key", "uuid"}, {"/", "a.b", ""}}, "!"},
		{"{{{id}}}x}}", []Part{{"{", "id", ""}}, "}x}"},
		{`{a."b:}\"c".d:hex}`, []Part{{"", `a."b:}\"c".d`, "hex"}}, ""},
		{"{a:b:uuid}", []Part{{"", "a", "b:uuid"}}, ""},
	} {
		parts, tail, err := Parse(c.template)
		if err != nil || !slices.Equal(parts, c.parts) || tail != c.tail {
			t.Errorf("%s: %q, %q, %v", c.template, parts, tail, err)
		}
	}
	for template, want := range map[string]string{"a}": "closes nothing", "{a": "not closed", `{"a}`: "not closed",
		"}": "closes nothing", "{a:}": "no form"} {
		if _, _, err := Parse(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", template, err)
		}
	}
}
