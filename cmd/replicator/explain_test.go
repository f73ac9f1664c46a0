package main

import (
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/service"
)

// explain shows a difference at a glance: the row in the source, the entries that the view should have, and those that
// it has.
func TestExplainShowsWhatTheSinkHolds(t *testing.T) {
	t.Parallel()
	for sink, prepare := range plantings() {
		t.Run(sink, func(t *testing.T) {
			p := prepare(t)
			p.restore()
			n := 0
			for view, plants := range p.views {
				for _, plant := range plants {
					if plant.bare {
						continue
					}
					key := entity(2 * n)
					n++
					all := jsonLines[service.Explanation](t, p.must("explain", "--json", view, key))
					if len(all) != 1 || all[0].Holds != service.AsExpected || all[0].Held != nil {
						t.Fatalf("%s, before anything is planted: %+v", view, all)
					}
					p.next++
					plant.do(p, key)
					text := p.must("explain", view, key)
					e := jsonLines[service.Explanation](t, p.must("explain", "--json", view, key))[0]
					if e.Holds != plant.kind || !strings.Contains(string(e.Row), `"email":"`) || len(e.Expected) != 1 {
						t.Errorf("%s: %s: %s", view, plant.kind, text)
					}
					holds := "it holds: nothing"
					if plant.kind != "missing" {
						holds = "it holds: " + string(e.Held[0])
					}
					if !strings.Contains(text, holds) || !strings.Contains(text, "should hold: "+string(e.Expected[0])) ||
						!strings.Contains(text, string(e.Row)) {
						t.Errorf("%s: %s is not said in\n%s", view, holds, text)
					}
					t.Log("\n" + text)
				}
			}
		})
	}
}

// A view merges cells of one table. The key is parsed for each of its feeds, and all report the same error. explain
// must print it once.
func TestExplainRefusesAKeyOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.Own(t, servers.MySQL))
	l.configure(source, program, mainSink, strings.Replace(usersView, `"cell.users"`, `["cell.users", "cell.profile"]`, 1))
	r := l.run("explain", "users", "nonsense")
	if n := strings.Count(r.errors, "neither hexadecimal digits nor a UUID"); r.code != exitUsage || n != 1 {
		t.Errorf("exit status %d, and it is said %d times:\n%s", r.code, n, r.errors)
	}
}

// To the source, 1.5 and 1.500 are equal. explain must accept such a key in any form that a SELECT finds.
func TestANumberOrDateInAKeyIsExplainedInAnyForm(t *testing.T) {
	t.Parallel()
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		l := newBareLab(t, servertest.Shared(t, kind))
		l.exec("CREATE TABLE price (amount DECIMAL(20,3), day DATE, name VARCHAR(20), amt INT, PRIMARY KEY (amount, day, name))",
			"INSERT INTO price VALUES (1.5, '2024-01-05', 'Ada', 7)")
		l.configure(source, program, mainSink, "[tables.price]\nkey = [\"amount\", \"day\", \"name\"]\n"+
			"[views.prices]\nfrom = \"price\"\nsink = \"main\"\nkind = \"row\"\nfields = [\"amt\"]\ncreate = true\n")
		l.must("run", "--until-caught-up")
		const key = "1.500:2024-01-05:Ada"
		for _, variant := range []string{key, "1.5:2024-1-5:Ada", "01.50:20240105:Ada"} {
			all := jsonLines[service.Explanation](t, l.must("explain", "--json", "prices", variant))
			if len(all) != 1 || all[0].Key != key || !all[0].Exists || all[0].Holds != service.AsExpected {
				t.Errorf("%s: %+v", variant, all)
			}
		}
	})
}
