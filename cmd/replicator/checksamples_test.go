package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// check tries a few rows of the source: whether the codec decodes them, whether they have what the views' paths name,
// and whether their values fit the targets. What it finds is no failure: a run would start.
func TestCheckTriesRowsOfTheSource(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.configure(cellViews)
	if out := l.must("check"); strings.Contains(out, "sampled") {
		t.Errorf("of no rows it says\n%s", out)
	}
	l.put("a", 1, `{"email": "a@x.org", "phone": 7, "username": "ann"}`)
	l.put("b", 1, `{"email": "b@x.org", "phone": 8, "username": "bob"}`)
	if out := l.must("check"); !strings.Contains(out, "ok    table cell: bodies: 2 sampled bodies are json") ||
		strings.Contains(out, "warn  view") {
		t.Errorf("of sound rows it says\n%s", out)
	}
	l.put("c", 1, `{"email": "c@x.org", "phone": "a secret number", "username": "a name that is too long"}`)
	l.put("d", 1, `no JSON`)
	l.configure(source, program, mainSink, emailView, usersView, phoneView,
		strings.NewReplacer("index_users_email", "mistyped", `["email"]`,
			`{ email = "e_mail" }`).Replace(emailView)+"table = \"index_users_email2\"\ncreate = true\n",
		strings.NewReplacer("index_users_email", "misnamed", "cell.users",
			"cell.user").Replace(emailView)+"table = \"index_users_email3\"\ncreate = true\n",
		strings.NewReplacer("index_users_phone",
			"numbers").Replace(phoneView)+"table = \"numbers\"\ncreate = true\nwhere = \"username == 'ann'\"\n")
	out := l.must("check")
	for _, want := range []string{
		"warn  table cell: bodies: 1 of 4 sampled bodies are not json: ",
		"warn  view mistyped: none of 3 sampled rows has e_mail, for email",
		"warn  view misnamed: none of 4 sampled rows is one of cell.user; seen were users",
		"warn  view index_users_phone: 1 values in 3 sampled rows can't be kept: phone: ",
		"warn  view users: 1 values in 3 sampled rows can't be kept: username: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it lacks %s\n%s", want, out)
		}
	}
	if strings.Contains(out, "secret") || strings.Contains(out, "warn  view numbers") ||
		strings.Contains(out, "warn  view index_users_email:") {
		t.Errorf("it shows a value, or what is not so:\n%s", out)
	}
}
