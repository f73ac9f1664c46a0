package canal

import (
	"fmt"
	"reflect"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// TestTablesOfAPatternAreReadTogetherAsTheyAreAlone: reading tables together gives the same schemas as reading each
// alone, and a table that can't be read does not affect the others.
func TestTablesOfAPatternAreReadTogetherAsTheyAreAlone(t *testing.T) {
	b := newBench(t, servertest.Shared(t, servers.MySQL))
	var tables []replicator.Table
	for i, columns := range []string{
		"id INT PRIMARY KEY, a VARCHAR(10) COLLATE utf8mb4_bin, KEY (a(3)), UNIQUE KEY (a, id)",
		"id BIGINT UNSIGNED, e ENUM('a','b''c'), UNIQUE KEY (id), g INT AS (id + 1)",
		"id INT, t DATETIME(3) NOT NULL, PRIMARY KEY (t, id), KEY ((id + 1)), j JSON",
		"id INT, c TEXT CHARACTER SET latin1",
	} {
		name := fmt.Sprint("T_", i)
		b.exec("CREATE TABLE " + name + " (" + columns + ")")
		tables = append(tables, replicator.Table{Name: "t", Database: b.database, Table: name, Key: []string{"id"}, Pattern: true})
	}
	src := b.source(replicator.Table{Name: "t", Table: "T_*", Key: []string{"id"}, Pattern: true})
	conn, srv, err := src.connect(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	found, err := readSchemas(testContext(t), conn, srv, tables)
	if err != nil || len(found) != len(tables) {
		t.Fatalf("%d of %d tables were read together: %v", len(found), len(tables), err)
	}
	for i := range tables {
		alone, end, err := readSchemaAt(testContext(t), conn, srv, &tables[i])
		if err != nil {
			t.Fatal(err)
		}
		together := found[idOf(&tables[i])]
		if !reflect.DeepEqual(together.shape, alone) || together.end != end {
			t.Errorf("table %s is read together as\n%+v at %v, alone as\n%+v at %v", tables[i].Table, together.shape,
				together.end, alone, end)
		}
	}
	gone := append(tables, replicator.Table{Name: "t", Database: b.database, Table: "T_gone", Key: []string{"id"}, Pattern: true})
	if found, err = readSchemas(testContext(t), conn, srv, gone); err != nil || found[idOf(&gone[len(tables)])].shape != nil {
		t.Errorf("with one that is gone: %d were read (%v)", len(found), err)
	}
}
