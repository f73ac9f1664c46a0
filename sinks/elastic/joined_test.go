package elastic

import (
	"context"
	"encoding/json"
	"testing"

	"replicator"
	"replicator/config"
	"replicator/internal/seen"
)

func TestJoinedFieldsAreMappedByTheColumnsOfTheJoinedTables(t *testing.T) {
	joins := []replicator.Join{
		{Name: "customer", Table: "customers", On: []replicator.JoinOn{{Column: "id", Path: "customer_id"}}},
		{Name: "items", Table: "items", On: []replicator.JoinOn{{Column: "order_id", Path: "id"}}, Many: true},
		{Name: "named", Table: "items", On: []replicator.JoinOn{{Column: "order_id", Path: "id"}}, Many: true,
			Fields: []replicator.Field{{Name: "n", Path: "qty"}}},
		{Name: "computed", Table: "items", On: []replicator.JoinOn{{Column: "order_id", Path: "id"}}, Many: true,
			Fields: []replicator.Field{{Name: "n", Path: "=qty + 1"}}},
	}
	v := &replicator.View{Name: "v", Kind: "document", From: []replicator.Feed{{Table: "orders"}}, Joins: joins}
	for _, path := range []string{"customer.$since", "customer.name", "items", "items[].qty", "named", "named[0].n", "computed"} {
		v.Fields = append(v.Fields, replicator.Field{Name: path, Path: path})
	}
	objects := seen.Values{}
	objects.Add([]any{replicator.Object{{Name: "n", Value: int64(1)}}})
	texts := seen.Values{}
	texts.Add("ada")
	s := &Sink{tables: map[string]replicator.Table{"orders": {Name: "orders"}, "items": {Name: "items"},
		"customers": {Name: "customers", Body: "body"}}}
	s.config.Columns = func(_ context.Context, _, table string) ([]config.Column, error) {
		return map[string][]config.Column{
			"customers": {{Name: "since", Type: "date"}, {Name: "body", Type: "json"}},
			"items":     {{Name: "qty", Type: "bigint unsigned"}, {Name: "sku", Type: "varchar(20)"}},
		}[table], nil
	}
	s.config.Samples = func(context.Context, string, *replicator.View) ([]seen.Values, error) {
		return []seen.Values{{}, texts, objects, {}, objects, {}, objects}, nil
	}
	mapping, err := s.made(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	check := func(number string) {
		t.Helper()
		for path, want := range map[string]string{
			"customer.$since": `{"format":"uuuu-MM-dd||strict_date_optional_time||epoch_millis","type":"date"}`,
			"customer.name":   `{"fields":{"keyword":{"ignore_above":256,"type":"keyword"}},"type":"text"}`,
			"items":           `{"properties":{"qty":` + number + `,"sku":{"ignore_above":8191,"type":"keyword"}}}`,
			"items[].qty":     number, "named": `{"properties":{"n":` + number + `}}`, "named[0].n": number,
			"computed": `{"depth_limit":200,"ignore_above":8191,"type":"flattened"}`,
		} {
			if got, _ := json.Marshal(mapping["properties"].(object)[path]); string(got) != want {
				t.Errorf("%s is mapped as %s, not %s", path, got, want)
			}
		}
	}
	check(`{"type":"unsigned_long"}`)
	if !withoutUnsigned(object{"mappings": mapping}) {
		t.Error("no unsigned_long is found")
	}
	check(`{"type":"double"}`)
}
