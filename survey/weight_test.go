package survey_test

import (
	"slices"
	"strings"
	"testing"

	"replicator/survey"
)

// A shop such as django-oscar has many tables. If no sink is named, one view is enabled; with named sinks, a few are.
// They belong to important tables, and not to the first tables of the alphabet.
func TestTheTablesThatMatterComeFirst(t *testing.T) {
	shop := func() []survey.Table {
		tables := []survey.Table{
			table("address_country", "iso_3166_1_a2", "iso_3166_1_a2 varchar(2)", "printable_name varchar(128)",
				"name varchar(128)", "display_order smallint"),
			table("address_useraddress", "id", "id bigint AUTO", "title varchar(64)", "country_id varchar(2)", "user_id int"),
			table("auth_user", "id|username", "id int AUTO",
				"password varchar(128)", "username varchar(150)", "email varchar(254)"),
			table("basket_basket", "id", "id bigint AUTO", "status varchar(128)", "owner_id int NULL"),
			table("catalogue_option", "id|code", "id bigint AUTO", "name varchar(128)", "code varchar(128)"),
			table("catalogue_product", "id", "id bigint AUTO",
				"upc varchar(64) NULL", "title varchar(255)", "slug varchar(255)"),
			table("catalogue_productimage", "id", "id bigint AUTO", "product_id bigint", "caption varchar(200)"),
			table("offer_range", "id|slug", "id bigint AUTO", "name varchar(128)", "slug varchar(128)"),
			table("order_line", "id", "id bigint AUTO", "title varchar(255)", "upc varchar(128) NULL", "order_id bigint",
				"product_id bigint NULL", "status varchar(255)"),
			table("order_order", "id|number", "id bigint AUTO",
				"number varchar(128)", "status varchar(100)", "user_id int NULL"),
			table("order_shippingaddress", "id", "id bigint AUTO", "title varchar(64)", "country_id varchar(2)"),
			table("partner_stockrecord", "id", "id bigint AUTO", "partner_sku varchar(128)", "product_id bigint"),
		}
		for i := range tables {
			tables[i] = repeated(tables[i], 3, tables[i].Columns[0].Name, "%d")
			for _, c := range tables[i].Columns {
				of := map[string]string{"country_id": "address_country", "user_id": "auth_user", "owner_id": "auth_user",
					"product_id": "catalogue_product", "order_id": "order_order"}[c.Name]
				if of != "" {
					tables[i].Foreign = append(tables[i].Foreign,
						survey.ForeignKey{Columns: []string{c.Name}, Table: of, Refers: []string{"id"}})
				}
			}
		}
		return tables
	}
	kept := func(text, sort string) (views []string) {
		for line := range strings.Lines(text) {
			if name, ok := strings.CutPrefix(line, "[views."); ok && strings.Contains(name, sort) {
				views = append(views, strings.TrimSuffix(name, "]\n"))
			}
		}
		return views
	}
	if got := kept(written(t, shop()...), ""); !slices.Equal(got, []string{"index_auth_user_email"}) {
		t.Errorf("without a sink it keeps %s", got)
	}
	target, err := survey.ParseTarget("http://search:9200")
	if err != nil {
		t.Fatal(err)
	}
	documents := kept(writtenDB(t, &survey.Database{Tables: shop(), Targets: []survey.Target{target}}), "_search")
	for _, want := range []string{"auth_user_search", "catalogue_product_search", "order_order_search"} {
		if !slices.Contains(documents, want) {
			t.Errorf("it does not keep %s: %s", want, documents)
		}
	}
}
