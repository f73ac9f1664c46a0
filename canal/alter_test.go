package canal

import (
	"strings"
	"testing"

	"replicator"
	"replicator/canal/gtid"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// columnsAfter returns the table's layout after a statement, as text.
func columnsAfter(t *testing.T, query string, before *layout, f gtid.Flavor) string {
	t.Helper()
	st := classifyStatement([]byte(query), "d", 0, onlyCell)
	if len(st.tables) != 1 {
		t.Fatalf("%s: concerns %v", query, st.tables)
	}
	return showLayout(st.columns.after(before, f))
}

func showLayout(l *layout) string {
	if l == nil {
		return "unknown"
	}
	var columns []string
	for _, c := range l.Columns {
		columns = append(columns, strings.TrimSpace(c.Name+" "+c.Type+" "+c.Charset))
	}
	return strings.Join(columns, ", ")
}

func TestStatementsThatLeaveTheColumnsAloneLeaveTheLayout(t *testing.T) {
	before := &layout{Charset: "utf8mb4", Columns: []layoutColumn{{Name: "a", Type: "int"}, {Name: "b", Type: "text", Charset: "latin1"}}}
	for _, query := range []string{
		"ALTER TABLE cell ADD INDEX (a, b), DROP KEY c, ADD UNIQUE d (a), ADD CONSTRAINT e CHECK (a > 0), " +
			"DROP FOREIGN KEY f",
		"alter table `d`.`cell` engine=InnoDB row_format=dynamic comment 'MODIFY a INT, ADD b INT'",
		"ALTER TABLE cell AUTO_INCREMENT = 7, ALGORITHM=NOCOPY, LOCK=NONE",
		"ALTER TABLE IF EXISTS cell ALTER COLUMN a SET DEFAULT (COALESCE(1, 2)), ALTER INDEX i INVISIBLE, RENAME INDEX i TO j;",
		"ALTER ONLINE TABLE cell WAIT 5 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		"ALTER TABLE cell ADD PARTITION (PARTITION p VALUES LESS THAN (1), PARTITION q VALUES LESS THAN (2))",
		"ALTER TABLE cell REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (1))",
		"ALTER TABLE cell ADD VECTOR INDEX (a) M=6",
		"ALTER TABLE cell FORCE",
		"CREATE UNIQUE INDEX i ON cell (a)",
		"DROP INDEX i ON cell",
		"CREATE TABLE IF NOT EXISTS cell (x INT)",
		"SET STATEMENT lock_wait_timeout=1 FOR ALTER TABLE cell ADD KEY (a)",
		"ALTER TABLE cell MODIFY a INT(5) COMMENT 'x' DEFAULT (1+2)",
		"ALTER TABLE cell ADD COLUMN IF NOT EXISTS a BIGINT FIRST",
		"ALTER TABLE cell DROP COLUMN IF EXISTS x, MODIFY COLUMN IF EXISTS y INT, RENAME COLUMN IF EXISTS z TO w",
		"TRUNCATE TABLE cell",
	} {
		if got := columnsAfter(t, query, before, gtid.MariaDB); got != showLayout(before) {
			t.Errorf("%.99s: %s", query, got)
		}
	}
}

// A statement that isn't understood makes the layout unknown. It is never guessed.
func TestStatementsThatAreNotUnderstoodMakeTheLayoutUnknown(t *testing.T) {
	before := &layout{Columns: []layoutColumn{{Name: "a", Type: "int"}, {Name: "t", Type: "text", Charset: "latin1"}}}
	for _, query := range []string{
		"ALTER TABLE cell ADD SYSTEM VERSIONING",
		"ALTER TABLE cell DROP SYSTEM VERSIONING",
		"ALTER TABLE cell ADD COLUMN s TIMESTAMP(6) GENERATED ALWAYS AS ROW START",
		"ALTER TABLE cell WHAT IS TO COME",
		"ALTER TABLE cell `ENGINE`",
		"ALTER TABLE cell ADD b XMLTYPE",
		"ALTER TABLE cell ADD a INT",
		"ALTER TABLE cell ADD b INT AFTER missing",
		"ALTER TABLE cell DROP missing",
		"ALTER TABLE cell CONVERT TO CHARACTER SET utf8mb4",
		"ALTER TABLE cell ADD b ENUM(_utf8'a', 'b')",
		"ALTER TABLE cell ADD b DECIMAL(1, 2, 3)",
		"ALTER TABLE cell ADD b INT(",
		"ALTER TABLE cell ADD INDEX (a)" + strings.Repeat(", ADD INDEX (a)", maxWords),
		"ALTER TABLE cell EXCHANGE PARTITION p WITH TABLE other",
		"DROP TABLE cell",
		"RENAME TABLE cell TO old, new TO cell",
		"CREATE TABLE cell LIKE other",
		"CREATE TABLE cell AS SELECT 1",
		"CREATE OR REPLACE TABLE cell SELECT 1 AS a",
	} {
		if got := columnsAfter(t, query, before, gtid.MySQL); got != "unknown" {
			t.Errorf("%.99s: %s", query, got)
		}
	}
	if got := columnsAfter(t, "ALTER TABLE cell ADD b INT", nil, gtid.MySQL); got != "unknown" {
		t.Errorf("of a table that wasn't known: %s", got)
	}
	if got := columnsAfter(t, "CREATE TABLE cell (a INT, b TEXT)", nil, gtid.MySQL); got != "a int, b text ?" {
		t.Errorf("a table whose database's character set isn't known: %s", got)
	}
}

// alters are ALTERs that both servers accept for a table (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(10) CHARACTER SET
// latin1, d TEXT).
var alters = []string{
	"ADD x INT", "ADD COLUMN x INT UNSIGNED NOT NULL DEFAULT 7 FIRST", "ADD x BIGINT(20) ZEROFILL AFTER a",
	"ADD (x INT, y VARCHAR(5))", "ADD x INT FIRST, ADD y INT AFTER x, ADD z INT", "DROP a", "DROP COLUMN a, DROP b, ADD a BIGINT",
	"MODIFY a INT AFTER b", "MODIFY COLUMN a BIGINT UNSIGNED", "MODIFY b INT FIRST, MODIFY a INT AFTER c",
	"CHANGE a x INT", "CHANGE COLUMN a b2 BIGINT AFTER c", "CHANGE a b INT, CHANGE b a INT", "CHANGE a A SMALLINT",
	"RENAME COLUMN a TO x", "RENAME COLUMN a TO b, RENAME COLUMN b TO a", "RENAME COLUMN a TO x, ADD a TINYINT",
	"DROP a, MODIFY b INT FIRST, ADD INDEX (c), ENGINE=InnoDB, COMMENT='ADD y INT, DROP z'",
	"ADD x BOOL, ADD y BOOLEAN NOT NULL DEFAULT TRUE, ADD z INTEGER, ADD v INT1, ADD w MIDDLEINT",
	"ADD x DEC, ADD y NUMERIC(5), ADD z DECIMAL(12,3) UNSIGNED, ADD w FIXED(4,0)",
	"ADD w FLOAT, ADD x FLOAT(7,3), ADD y DOUBLE PRECISION, ADD z REAL, ADD v FLOAT(30), ADD u DOUBLE(8,2)",
	"ADD x BIT, ADD y BIT(17), ADD z YEAR, ADD w DATE",
	"ADD x TIME, ADD y TIME(3), ADD z DATETIME(6), ADD w TIMESTAMP(2) NULL DEFAULT CURRENT_TIMESTAMP(2) ON UPDATE CURRENT_TIMESTAMP(2)",
	"ADD x CHAR, ADD y CHAR(70), ADD z CHARACTER(3), ADD w CHAR(200) CHARACTER SET utf8mb4",
	"ADD x CHARACTER VARYING(9), ADD y NATIONAL VARCHAR(4), ADD z NCHAR(2), ADD w VARCHAR(300) CHARSET ascii COLLATE ascii_bin",
	"ADD x VARCHAR(10) NOT NULL DEFAULT 'it''s, \\'ok\\'' COLLATE utf8mb4_bin, ADD y VARCHAR(9) BINARY, ADD z CHAR(3) ASCII",
	"ADD x BINARY(16), ADD y VARBINARY(300), ADD z BINARY, ADD w CHAR(5) CHARACTER SET binary, ADD v CHAR(4) BYTE",
	"ADD x TINYTEXT, ADD y MEDIUMTEXT, ADD z LONGTEXT CHARACTER SET sjis, ADD w LONG, ADD v LONG VARBINARY",
	"ADD x TEXT(10), ADD y TEXT(100), ADD z TEXT(20000), ADD w TEXT(70000), ADD v BLOB(255), ADD u BLOB(256)",
	"ADD x TINYBLOB, ADD y BLOB, ADD z MEDIUMBLOB, ADD w LONGBLOB",
	"ADD x ENUM('a','b,c','it''s ') CHARACTER SET latin1, ADD y SET('x','y') NOT NULL, ADD z ENUM('q\\'r', \"s\")",
	"ADD x JSON, ADD y POINT, ADD z GEOMETRY NOT NULL",
	"ADD x INT AS (a + 1) STORED, ADD y VARCHAR(20) GENERATED ALWAYS AS (CONCAT(c, ')', 'AFTER')) VIRTUAL AFTER a",
	"ADD x INT COMMENT 'AFTER b' AFTER a, ADD y INT CHECK (y > 0)",
	"MODIFY c VARCHAR(10) CHARACTER SET utf8mb4, MODIFY d MEDIUMTEXT COLLATE latin1_general_ci",
	"DEFAULT CHARACTER SET latin1, ADD x VARCHAR(10)", "COLLATE utf8mb4_bin, ADD x ENUM('a')",
	"ADD x VARCHAR(10), DEFAULT CHARSET=ascii", "ENGINE=InnoDB COMMENT='x' DEFAULT CHARSET=latin1, ADD x VARCHAR(10)",
	"ROW_FORMAT=DYNAMIC COLLATE=utf8mb4_bin COMMENT 'CHARSET', ADD x TEXT",
	"DROP d, CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci", "DROP d, CONVERT TO CHARSET latin1, ADD x CHAR(3)",
	"ADD `in``dex` INT, ADD `x y` INT AFTER `in``dex`", "/*!50000 ADD x INT FIRST */, ADD /* DROP a, */ y INT -- , DROP b",
	"ADD x INT DEFAULT (a + 1)", "DROP PRIMARY KEY, ADD x SERIAL, MODIFY id INT",
}

// altersOf returns ALTERs in syntax that only this kind of server accepts.
func altersOf(kind servers.Kind) []string {
	if kind.IsMariaDB() {
		return []string{
			"ADD COLUMN IF NOT EXISTS a BIGINT, ADD COLUMN IF NOT EXISTS x INT AFTER a", "DROP COLUMN IF EXISTS x, DROP COLUMN IF EXISTS a",
			"MODIFY COLUMN IF EXISTS x INT FIRST, MODIFY COLUMN IF EXISTS a BIGINT FIRST", "CHANGE COLUMN IF EXISTS x y INT, CHANGE COLUMN IF EXISTS a y INT",
			"RENAME COLUMN IF EXISTS x TO y, RENAME COLUMN IF EXISTS a TO z", "WAIT 3 ADD x INT FIRST", "NOWAIT ADD x INT FIRST",
			"ADD x UUID, ADD y INET6 NOT NULL, ADD z INET4 FIRST", "ADD x INT INVISIBLE, ADD y INT AS (a + 1) PERSISTENT",
			"ADD x VARCHAR(36) DEFAULT (UUID())", "ADD x TEXT COMPRESSED, ADD y VARCHAR(100) COMPRESSED", "/*M!100301 ADD x INT FIRST */", "ADD x INT, ALGORITHM=NOCOPY",
			"ADD x VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci, ADD y VARCHAR(3) COLLATE utf8mb4_uca1400_ai_ci",
		}
	}
	return []string{
		"ADD x INT INVISIBLE FIRST, ADD y INT VISIBLE", "ADD x POINT NOT NULL SRID 4326, ADD y GEOMCOLLECTION",
		"ADD x VARCHAR(10) COLLATE utf8mb4_0900_as_cs", "ADD x VECTOR(3)",
		"/*!80023 ADD x INT INVISIBLE FIRST */", "ALTER COLUMN a SET INVISIBLE, ADD x INT FIRST",
		"ADD x INT FIRST, ADD INDEX ((a + 1)), ADD INDEX j ((CAST(c AS CHAR(3)))), ALGORITHM=COPY",
	}
}

func TestALTERsLeadToTheLayoutThatTheServerShows(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		flavor := b.flavor()
		conn, err := b.db.Conn(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		table := &replicator.Table{Name: "cell", Database: b.database, Table: "cell"}
		shown := func() *layout {
			t.Helper()
			shape, err := readSchema(testContext(t), conn, table)
			if err != nil {
				t.Fatal(err)
			}
			return shape.layout()
		}
		for _, alter := range append(altersOf(s.Kind), alters...) {
			const create = "CREATE TABLE cell (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(10) CHARACTER SET latin1, d TEXT) " +
				"DEFAULT CHARSET utf8mb4"
			b.exec("DROP TABLE IF EXISTS cell", create)
			before := shown()
			if got := columnsAfter(t, create, nil, flavor); got != showLayout(before) {
				t.Fatalf("%s: %s, want %s", create, got, showLayout(before))
			}
			query := "ALTER TABLE cell " + alter
			b.exec(query)
			if got, want := columnsAfter(t, query, before, flavor), showLayout(shown()); !strings.EqualFold(got, want) {
				t.Errorf("%s:\n got %s\nwant %s", query, got, want)
			}
		}
	})
}
