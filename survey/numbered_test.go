package survey_test

import (
	"fmt"
	"strings"
	"testing"

	"replicator/survey"
)

// orders returns n tables with the same columns and one row each. If apart is set, all rows have different keys.
func orders(n int, id string, apart bool) (all []survey.Table) {
	for i := range n {
		t := table(fmt.Sprintf("orders_%02d", i), "id", id, "customer_id bigint", "status enum('new','paid')")
		row := 7
		if apart {
			row += i
		}
		add(&t, "id", []string{fmt.Sprint(row)})
		all = append(all, t)
	}
	return all
}

func TestTablesThatDifferInTheirNumbersAreTakenForOne(t *testing.T) {
	got := written(t, append(orders(8, "id bigint", true), table("orders_counter", "id", "id bigint"))...)
	for _, want := range []string{
		"[tables.orders]\ntable = \"orders_??\"   # 8 tables, orders_00 to orders_07\nkey = \"id\"\n",
		"[views.orders_hash]\n#from = \"orders\"\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks\n%s", want)
		}
	}
	if strings.Contains(got, "orders_01") {
		t.Errorf("a part is a table of its own:\n%s", got)
	}
}

func TestTablesThatMayHaveTheSameKeyStayApart(t *testing.T) {
	for name, tables := range map[string][]survey.Table{
		"the samples share a key":    orders(4, "id bigint", false),
		"each table numbers its own": orders(4, "id bigint AUTO", true),
	} {
		t.Run(name, func(t *testing.T) {
			got := written(t, tables...)
			prose := strings.ReplaceAll(got, "\n# ", " ")
			if !strings.Contains(got, "[tables.orders_03]") || !strings.Contains(prose, `with "$table" in the key`) {
				t.Errorf("it is\n%s", got)
			}
		})
	}
}

func TestTablesThatAreNotAlikeStayApart(t *testing.T) {
	unlike := orders(4, "id bigint", true)
	unlike[2].Columns[1] = parse("customer_id int")
	for name, tables := range map[string][]survey.Table{
		"two tables":      orders(2, "id bigint", true),
		"another type":    unlike,
		"another width":   append(orders(2, "id bigint", true), table("orders_100", "id", "id bigint")),
		"nothing but one": {table("a1", "id", "id int"), table("b2", "id", "id int"), table("c3", "id", "id int")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := written(t, tables...); strings.Contains(got, "??") {
				t.Errorf("it is\n%s", got)
			}
		})
	}
}
