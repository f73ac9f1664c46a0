package survey_test

import (
	"errors"
	"strings"
	"testing"

	"replicator/survey"
)

func TestViewsAreProposedForTheServersThatAreNamed(t *testing.T) {
	orders := table("orders", "id", "id int AUTO", "customer varchar(64)",
		"status enum('new','paid')", "total decimal(10,2)")
	add(&orders, "id", []string{"1"})
	for _, c := range []struct {
		name, target string
		has, lacks   []string
	}{
		{"none", "", []string{"[sinks.main]", "[views.index_orders_customer]", "#[sinks.cache]", "#[views.orders_hash]",
			"#[views.orders_by_status_counter]"}, nil},
		{"a Redis", "redis://127.0.0.1:6379/1", []string{"[sinks.cache]",
			`url = "redis://127.0.0.1:6379/1"`, "[views.orders_hash]",
			"[views.orders_count_by_status]", "#[sinks.main]", "#[views.index_orders_customer]",
			"#[sinks.search]"}, []string{"username"}},
		{"a Redis with a password", "rediss://ann:hunter2@cache:6379",
			[]string{`url = "rediss://cache:6379"`, `username = "ann"`,
				`password = "${REDIS_PASSWORD}"`,
				"#     export REDIS_PASSWORD='...'   # the password at the Redis that views are kept in"}, nil},
		{"a Redis on a socket", "unix:///run/redis.sock", []string{`url = "unix:///run/redis.sock"`}, nil},
		{"an Elasticsearch", "https://elastic:${ES}@search:9200/",
			[]string{"[sinks.search]", `addresses = ["https://search:9200"]`,
				`username = "elastic"`, `password = "${ES}"`, "[views.orders_search]",
				"#[views.orders_hash]"}, []string{"ELASTIC_PASSWORD"}},
		{"a MySQL server", "w:hunter2@tcp(db2:3306)/views", []string{"[sinks.main]",
			`dsn = "w:${SINK_PASSWORD}@tcp(db2:3306)/views"`,
			"[views.index_orders_customer]", "[views.orders_by_status_counter]"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := &survey.Database{Tables: []survey.Table{orders}}
			if c.target != "" {
				target, err := survey.ParseTarget(c.target)
				if err != nil {
					t.Fatal(err)
				}
				db.Targets = []survey.Target{target}
			}
			text := writtenDB(t, db)
			for _, want := range c.has {
				if !strings.Contains(text, "\n"+want+"\n") {
					t.Errorf("it lacks the line %s", want)
				}
			}
			for _, lacks := range append(c.lacks, "hunter2") {
				if strings.Contains(text, lacks) {
					t.Errorf("it has %s", lacks)
				}
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
	for _, text := range []string{"", "redis://", "redis:///run/x", "unix://run", "ftp://x", "hunter2",
		"u:hunter2@tcp(db2:3306)/", "http://u:hunter2@"} {
		if _, err := survey.ParseTarget(text); !errors.Is(err, survey.ErrTarget) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Elasticsearch refuses a field with the name of one of its internal fields, such as _id. Data that came from another
// document store often has such fields.
func TestADocumentsFieldsDoNotBeginLikeElasticsearchsOwn(t *testing.T) {
	movies := table("movies", "id", "id int AUTO", "_id varchar(24)", "title varchar(40)", "_title varchar(40)")
	add(&movies, "id", []string{"1"})
	target, err := survey.ParseTarget("http://search:9200")
	if err != nil {
		t.Fatal(err)
	}
	text := writtenDB(t, &survey.Database{Tables: []survey.Table{movies}, Targets: []survey.Target{target}})
	if want := `fields = { id_ = "_id", title = "title", title_ = "_title" }`; !strings.Contains(text, want) &&
		!strings.Contains(text, `fields = { id = "_id", title = "title", title_ = "_title" }`) {
		t.Errorf("it lacks %s:\n%s", want, text)
	}
}
