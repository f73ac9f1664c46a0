package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	examples "replicator/internal/lab"
	"replicator/internal/servers/servertest"
)

// schemasDir has public schemas, written from their documentation, with a few rows each.
const schemasDir = "../../survey/testdata/schemas"

// TestPublicSchemasAreKeptAsInitProposes runs init on schemas that many people use. check must accept the output for a
// Redis, an Elasticsearch, and the source's own database. The schemas that differ most are also run.
func TestPublicSchemasAreKeptAsInitProposes(t *testing.T) {
	t.Parallel()
	s, cache, search := servertest.MySQL(t), servertest.Redis(t), servertest.Elasticsearch(t)
	for i, c := range publicSchemas() {
		name := c.name
		t.Run(name, func(t *testing.T) {
			l := newBareLab(t, s)
			text, err := os.ReadFile(filepath.Join(schemasDir, name+".sql"))
			if err != nil {
				t.Fatal(err)
			}
			l.session(examples.Statements(string(text))...)
			l.env = map[string]string{"DB_PASSWORD": password}
			r := l.command("init", "--source", l.dsn(s.Addr(), l.database), "--sink", l.dsn(s.Addr(), l.database),
				"--sink", cache.DSN(strconv.Itoa(i)), "--sink", search)
			if r.code != 0 {
				t.Fatalf("%+v", r)
			}
			l.env["SINK_PASSWORD"] = password
			alone := l.command("init", "--source", l.dsn(s.Addr(), l.database))
			if live := liveViews(alone.out); !slices.Equal(live, strings.Fields(c.first)) {
				t.Errorf("without a sink it keeps %q, want %q: %s", live, c.first, alone.errors)
			}
			proposed := "\n" + r.out
			for _, want := range c.says {
				if !strings.Contains(proposed, "\n"+want+"\n") {
					t.Errorf("it lacks the line %s", want)
				}
			}
			for _, view := range c.views {
				if !strings.Contains(proposed, "\n[views."+view+"]\n") {
					t.Errorf("it does not keep %s", view)
				}
			}
			l.configure(strings.ReplaceAll(strings.Replace(r.out, "127.0.0.1:9190", l.listen, 1),
				"_search", "_search_"+l.database))
			l.must("check")
			if c.runs {
				l.must("run", "--until-caught-up")
				if letters := l.letters(); len(letters) > 0 {
					t.Errorf("dead letters: %+v", letters)
				}
				l.must("verify")
			}
			if t.Failed() || testing.Verbose() {
				t.Log(r.out)
			}
		})
	}
}

// liveViews returns the names of a configuration's active views.
func liveViews(text string) (names []string) {
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "[views."); ok {
			names = append(names, strings.TrimSuffix(name, "]\n"))
		}
	}
	return names
}

type publicSchema struct {
	name  string
	first string   // the only active view if no --sink is given; in an event log, each kind of event has one
	says  []string // lines that the configuration must have
	views []string // views that must be active
	runs  bool     // whether the configuration is run
}

func publicSchemas() []publicSchema {
	return []publicSchema{
		{"outbox", "index_outbox_customer", []string{"# outbox: an outbox, a row for each event.", `key = "id"`, `body = "payload"`,
			`codec = "json"   # 3 of 3 sampled bodies decode`,
			`#fields = { aggregateid = "$aggregateid" }`}, []string{"outbox_hash", "outbox_search"}, false},
		{"paper_trail", "index_posts_author_id", []string{`key = ["item_type", "item_id"]`, `version = "id"`,
			"# - schema_migrations: a framework uses it for itself."},
			[]string{"posts_hash", "posts_by_status_counter", "posts_count_by_status", "versions_hash"}, false},
		{"django_reversion", "index_auth_user_email", []string{`key = ["db", "content_type_id", "object_id"]`, `version = "id"`,
			"# - django_migrations: a framework uses it for itself."},
			[]string{"index_auth_user_email", "auth_user_hash", "reversion_version_hash"}, false},
		{"wordpress", "index_wp_posts_post_author", []string{`key = "meta_id"`, `key = ["object_id", "term_taxonomy_id"]`, `group = ["post_status"]`},
			[]string{"index_wp_users_user_email", "wp_posts_hash", "wp_posts_count_by_post_status",
				"wp_term_relationships_hash"}, false},
		{"magento", "index_catalog_product_entity_sku", []string{`key = ["entity_id", "store_id"]`, `column = "attribute_id"`,
			`fields = { attribute_id_77 = "=attribute_id == 77 ? value : nil", attribute_id_78 = "=attribute_id == 78 ? value : nil" }`},
			[]string{"index_catalog_product_entity_sku", "catalog_product_entity_decimal_hash",
				"catalog_product_entity_varchar_search"}, true},
		{"sakila", "index_staff_email", []string{`group = ["rating"]`, `key = "film_actor_by_actor_id:{actor_id}"`, `member = "{film_id}"`},
			[]string{"film_search", "film_count_by_rating", "index_staff_email", "address_hash"}, true},
		{"employees", "index_employees_first_name", []string{`group = ["gender"]`, `group = ["emp_no"]`},
			[]string{"employees_hash", "employees_count_by_gender", "salaries_counter"}, false},
		{"schemaless", "index_BASE_driver_uuid", []string{`key = "row_key"`, `column = "column_name"`, `version = "ref_key"`, `from = "trips.BASE"`},
			[]string{"index_BASE_driver_uuid", "BASE_hash", "base_search", "STATUS_hash"}, true},
		{"sysbench", "index_sbtest1_k", []string{`key = "id"`}, []string{"index_sbtest1_k", "sbtest1_hash", "sbtest1_search"}, false},
		{"event_store", "index_user_email index_order_paid_method index_order_placed_customer", []string{`key = "aggregate_id"`, `version = "aggregate_version"`, `key = "entity_id"`,
			`column = "type"`, `version = "id"`,
			`from = "shop_events.order_paid"`}, []string{"user_hash", "order_placed_hash", "index_user_email"}, true},
		{"django_oscar", "index_auth_user_email", []string{`#group = ["status"]`, `#kind = "ranking"`, `#member = "{product_id}"`, `#sum = "quantity"`,
			`#[views.order_order_joined]`},
			[]string{"index_auth_user_email", "catalogue_product_search", "order_order_hash", "order_order_count_by_status"}, false},
		{"laravel", "index_users_email", []string{`key = "media:{id}"`},
			[]string{"index_users_email", "media_hash", "activity_log_search"}, true},
	}
}
