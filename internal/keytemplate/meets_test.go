package keytemplate

import "testing"

func TestTemplatesMeetUnlessTheirTextProvesOtherwise(t *testing.T) {
	for _, c := range []struct {
		a, b string
		meet bool
	}{
		{"by:{email}", "by:{phone}", true},
		{"x:{id}", "x:{oid}", true},
		{"j:{id}", "j:{$id}", true},
		{"user:{id}", "user:{id:uuid}", true},
		{"user:{id}", "user:all", true},
		{"user:{id}", "user:", true}, // the value may be an empty text
		{"user:{id}", "user:posts:{id}", true},
		{"user:{id}", "user:{id}:posts", true},
		{"{id}", "replicator:{any}", true},
		{"{a}:x", "y:{a}", true},
		{"a:{x}:{y}", "a:{x}/{y}", true},
		{"all", "all", true},
		{"{{{id}", "{{{$id}", true},

		{"user:{id}", "user_by_email:{email}", false},
		{"user:{id}", "users:{id}", false},
		{"user:{id}", "user", false},
		{"{id}:user", "{id}:post", false},
		{"all", "every", false},
		{"user:{id:uuid}", "user:{id:uuid}:posts", false}, // a value in the form uuid has no colon
		{"user:{id:hex}", "user:posts:{id:hex}", false},
		{"user:{id:base64}", "user:all!", false},
		{"{id:hex}", "replicator:{any}", false},
		{"{a}:{b:hex}", "{a}:{b:hex}:{c:hex}", false}, // no value has a colon
		{"{{{id}", "}}{id}", false},
		{"a{", "a{", false}, // other code refuses this template
	} {
		if got := Meet(c.a, c.b); got != c.meet {
			t.Errorf("%s and %s: %t, want %t", c.a, c.b, got, c.meet)
		}
		if got := Meet(c.b, c.a); got != c.meet {
			t.Errorf("%s and %s: %t, want %t", c.b, c.a, got, c.meet)
		}
	}
}

func TestATemplateIsFilledWithValues(t *testing.T) {
	for _, c := range []struct {
		template string
		values   []string
		want     string
	}{
		{"all", nil, "all"},
		{"user:{id}!", []string{"a:b%"}, "user:a:b%!"},
		{"tag:{tag}:{id:uuid}", []string{"a:b%", "c:d"}, "tag:a%3Ab%25:c:d"},
	} {
		parts, tail, err := Parse(c.template)
		if got := Fill(parts, tail, c.values); err != nil || got != c.want {
			t.Errorf("%s: %q, want %q (%v)", c.template, got, c.want, err)
		}
	}
}
