package survey_test

import (
	"strings"
	"testing"

	"replicator/survey"
)

// Most tables that have a JSON column have ordinary columns, too. Views show both.
func TestViewsShowTheColumnsBesideABody(t *testing.T) {
	customers := func(keys string) survey.Table {
		return repeated(table("customers", keys, "id int AUTO", "email varchar(190)", "status varchar(20)",
			"password varchar(60)", "data json"), 3, "id,data", "%d", `{"phone": "+49 %d", "password": "x", "Status": 1}`)
	}
	text := written(t, customers("id|email"))
	for _, want := range []string{`
[views.index_customers_email]
from = "customers"
sink = "main"
kind = "index"
fields = ["$email"]
create = true
types = { email = "varchar(190)" }
`, "\n#[views.index_customers_phone]\n", "\n#fields = [\"$email\", \"Status\", \"phone\"]\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %s", want)
		}
	}
	if text = written(t, customers("id")); !strings.Contains(text, "\n[views.index_customers_phone]\n") {
		t.Error("without an index of email it keeps no index of phone")
	}
	if t.Failed() {
		t.Logf("it is\n%s", text)
	}
}
