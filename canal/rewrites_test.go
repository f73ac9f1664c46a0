package canal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// conversions are changes of a column's type by ALTER, with values that show their effect. Each ALTER changes the type
// from was to one of keeps or loses. The types in keeps change no value, and rewrites must know it.
var conversions = []struct {
	was          string
	values       []string
	keeps, loses []string
}{
	{was: "INT", values: []string{"-70000", "0", "2147483647", "NULL"},
		keeps: []string{"INT", "BIGINT", "INT DEFAULT 5", "INT(3)"},
		loses: []string{"SMALLINT", "INT UNSIGNED", "BIGINT UNSIGNED", "VARCHAR(20)", "DECIMAL(20,2)", "INT NOT NULL", "INT AS (id * 3)",
			"FLOAT", "ENUM('0','5')", "TINYINT(1)"}},
	{was: "TINYINT UNSIGNED", values: []string{"0", "255"}, keeps: []string{"SMALLINT UNSIGNED", "BIGINT UNSIGNED"}, loses: []string{"TINYINT"}},
	{was: "INT AS (id * 2) STORED", values: []string{"DEFAULT"}, loses: []string{"INT AS (id * 3) STORED"}},
	{was: "DECIMAL(10,2)", values: []string{"1.5", "-99999999.99"},
		keeps: []string{"DECIMAL(10,2)", "DECIMAL(12,2)"}, loses: []string{"DECIMAL(12,4)", "DECIMAL(10,1)", "DECIMAL(5,2)", "DOUBLE"}},
	{was: "FLOAT", values: []string{"1.1"}, keeps: []string{"FLOAT"}, loses: []string{"DOUBLE", "DECIMAL(10,2)"}},
	{was: "BIT(3)", values: []string{"5"}, keeps: []string{"BIT(9)"}, loses: []string{"BIT(2)"}},
	{was: "DATETIME", values: []string{"'2024-02-29 23:59:58'"}, keeps: []string{"DATETIME"}, loses: []string{"DATETIME(3)", "DATE", "TIMESTAMP NULL"}},
	{was: "TIME(3)", values: []string{"'12:34:56.789'"}, keeps: []string{"TIME(3)"}, loses: []string{"TIME", "TIME(6)"}},
	{was: "VARCHAR(20)", values: []string{"'é学 '", "'007'", "''", "NULL", "'abcdefghij  '"},
		keeps: []string{"VARCHAR(20)", "VARCHAR(300)", "TEXT", "MEDIUMTEXT", "VARCHAR(20) COLLATE utf8mb4_bin"},
		loses: []string{"VARCHAR(11)", "CHAR(20)", "VARCHAR(20) CHARACTER SET latin1", "VARCHAR(20) NOT NULL", "INT", "VARBINARY(90)", "TINYTEXT"}},
	{was: "CHAR(5)", values: []string{"'ab'", "'é'"}, keeps: []string{"CHAR(6)", "VARCHAR(5)", "TEXT"}, loses: []string{"CHAR(1)", "BINARY(5)"}},
	{was: "VARCHAR(20) CHARACTER SET latin1", values: []string{"'é'", "'a '"},
		keeps: []string{"VARCHAR(20) CHARACTER SET utf8mb4", "VARCHAR(30) CHARACTER SET latin1", "TEXT CHARACTER SET utf8mb4"},
		loses: []string{"VARCHAR(20) CHARACTER SET ascii", "VARCHAR(20) CHARACTER SET utf8mb3"}},
	{was: "TEXT", values: []string{"REPEAT('é', 30000)", "'a'"}, keeps: []string{"LONGTEXT"}, loses: []string{"TINYTEXT", "BLOB", "VARCHAR(100)"}},
	{was: "TEXT CHARACTER SET latin1", values: []string{"REPEAT('é', 60000)"}, keeps: []string{"MEDIUMTEXT"}, loses: []string{"TEXT"}},
	{was: "BINARY(3)", values: []string{"'ab'", "0x010200"}, keeps: []string{"BINARY(3)", "VARBINARY(3)", "BLOB"}, loses: []string{"BINARY(5)", "CHAR(3)"}},
	{was: "BLOB", values: []string{"'ab'"}, keeps: []string{"MEDIUMBLOB"}, loses: []string{"TEXT", "TINYBLOB"}},
	{was: "ENUM('a','b','c')", values: []string{"'a'", "'c'", "NULL"},
		keeps: []string{"ENUM('a','b','c','d')", "ENUM('c','b','a')"}, loses: []string{"ENUM('a','b')", "ENUM('A','B','C')", "VARCHAR(5)", "INT"}},
	{was: "SET('x','y','z')", values: []string{"'x,z'", "''"},
		keeps: []string{"SET('x','y','z','w')"}, loses: []string{"SET('z','y','x')", "SET('x','y')"}},
	{was: "JSON", values: []string{"'{\"a\": 1.0}'"}, keeps: []string{"JSON"}, loses: []string{"VARCHAR(100)", "JSON NOT NULL"}},
}

// rewrites reports every ALTER that changes a value. The log lists none of these changes, so an ALTER that is not
// reported would go unnoticed.
func TestALTERsThatChangeValuesAreKnown(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		flavor := b.flavor()
		conn, err := b.db.Conn(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		table := &replicator.Table{Name: "cell", Database: b.database, Table: "cell"}
		shown := func() string {
			t.Helper()
			var text string
			err := conn.QueryRowContext(testContext(t), "SELECT GROUP_CONCAT(COALESCE(CONCAT(IF(HEX(v) = '5', v + 0, v)), 'NULL') "+
				"ORDER BY id SEPARATOR '|') FROM cell").Scan(&text)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		exec := func(query string) error { _, err := conn.ExecContext(testContext(t), query); return err }
		for _, c := range conversions {
			for _, to := range slices.Concat(c.keeps, c.loses) {
				for _, mode := range []string{"", "STRICT_TRANS_TABLES"} {
					err := cmp.Or(exec("SET SESSION sql_mode = 'STRICT_TRANS_TABLES', group_concat_max_len = 10000000"), exec("DROP TABLE IF EXISTS cell"),
						exec("CREATE TABLE cell (id INT PRIMARY KEY, v "+c.was+") DEFAULT CHARSET utf8mb4"))
					for i, v := range c.values {
						err = cmp.Or(err, exec(fmt.Sprintf("INSERT INTO cell VALUES (%d, %s)", i+1, v)))
					}
					if err = cmp.Or(err, exec("SET SESSION sql_mode = '"+mode+"'")); err != nil {
						t.Fatalf("%s: %v", c.was, err)
					}
					shape, err := readSchema(testContext(t), conn, table)
					if err != nil {
						t.Fatal(err)
					}
					before, query := shown(), "ALTER TABLE cell MODIFY v "+to
					if err := exec(query); err != nil {
						t.Logf("%s to %s, %q: %v", c.was, to, mode, err)
						continue
					}
					var bits sqlMode
					if mode != "" {
						bits = strict
					}
					st := classifyStatement([]byte(query), "d", bits, onlyCell)
					columns, all := st.columns.rewrites(shape.layout(), "", flavor)
					told := all || slices.Contains(columns, "v")
					if after := shown(); after != before && !told {
						t.Errorf("%s to %s, %q: %.99s became %.99s, which is not known", c.was, to, mode, before, after)
					}
					if told && slices.Contains(c.keeps, to) {
						t.Errorf("%s to %s, %q: values change, it is said", c.was, to, mode)
					}
					if !told && slices.Contains(c.loses, to) && !strings.Contains(to, "NOT NULL") {
						t.Errorf("%s to %s, %q: it isn't said that values may change", c.was, to, mode)
					}
				}
			}
		}
	})
}
