package main

import (
	"bytes"
	"compress/zlib"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator/internal/launch"
)

func allBounds() []bound {
	return append([]bound{
		{name: "transaction", what: "a transaction of %s MiB, in rows of 1 MiB", full: 1024, views: emailIndex("cell.users"),
			ddl: emailTable, write: hugeTransaction, check: emailRows},
		{name: "tiny-rows", what: "%s tiny rows in a transaction, ten of each key", full: 10_000_000, views: tinyViews,
			ddl: noTables, write: tinyRows, check: tinyHashes},
		{name: "body", what: "%s bodies of 60 MiB", full: 5, views: emailIndex("cell.users"), ddl: emailTable,
			write: hugeBodies, check: emailRows},
		{name: "backlog", what: "a backlog of %s cells", full: 2_000_000, views: emailIndex("cell.users"), ddl: emailTable,
			write: writeBacklog, check: checkBacklog},
		{name: "views", what: "%s views of a table with 1,000 cells", full: 500, views: manyViews, ddl: manyTables,
			write: func(ctx context.Context, l *boundLab, _ int) error { return l.writePhased(ctx, manyCells) },
			check: manyRows},
		{
			name: "ddl",
			what: "%s tables that no view reads, each created, altered and filled, half of them dropped, between " +
				"writes of cells",
			full:  5000,
			views: emailIndex("cell.users"),
			ddl:   emailTable,
			write: churn,
			check: emailRows,
		},
		{
			name:  "letters",
			what:  "%s rows, each a dead letter",
			full:  200_000,
			views: emailIndex("cell.users"),
			ddl:   emailTable,
			write: badRows,
			check: lettersKept,
		},
		{name: "bombs", what: "%s bodies that decompress a thousandfold, to 16 MiB each", full: 200, views: bombViews,
			ddl: emailTable, write: bombs, check: emailRows},
		{name: "entity", what: "one entity with %s cells", full: 1_000_000, views: emailIndex("cell"), ddl: emailTable,
			write: oneEntity, check: emailRows},
	}, crowdsOfOneEntity()...)
}

func emailTable(int) []string { return []string{indexDDL("index_email")} }

func indexDDL(name string) string {
	return "CREATE TABLE " + name + " (email VARCHAR(254) NOT NULL, row_key BINARY(16) NOT NULL, " +
		"PRIMARY KEY (email, row_key), KEY (row_key)) ENGINE=InnoDB"
}

func noTables(int) []string { return nil }

func mainSink(l *boundLab) string {
	return tableSink(l.sink, boundsDatabase)
}

func emailIndex(from string) func(l *boundLab, n int) string {
	return func(l *boundLab, _ int) string { return mainSink(l) + table("index_email").view(from, "main") }
}

// emailRows checks that the index table has n rows, one for each row of the source.
func emailRows(ctx context.Context, l *boundLab, n int) error { return l.rows(ctx, "index_email", n) }

func (l *boundLab) rows(ctx context.Context, table string, want int) error {
	var held int
	err := l.sinkDB.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+boundsDatabase+"."+table).Scan(&held)
	if err == nil && held != want {
		err = fmt.Errorf("the result is wrong: %s has %d rows, not %d", table, held, want)
	}
	return err
}

// insertNumbered inserts n rows into a table of the source, in one statement. The SQL expressions in the parameter
// `values` compute a row's columns from its number i, from 1 to n.
func (l *boundLab) insertNumbered(ctx context.Context, into, values string, n int) error {
	return connected(ctx, l.sourceDB, func(conn *sql.Conn) error {
		depth := "SET SESSION cte_max_recursion_depth = 4294967295"
		if l.source.Kind.IsMariaDB() {
			depth = "SET SESSION max_recursive_iterations = 4294967295"
		}
		for _, q := range []string{depth, fmt.Sprintf("INSERT INTO %s.%s WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 "+
			"FROM n WHERE i < %d) SELECT %s FROM n", sourceDatabase, into, n, values)} {
			if _, err := conn.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
		return nil
	})
}

const (
	cellColumns = "cell (row_key, column_name, ref_key, body)"
	keyOfNumber = "UNHEX(LPAD(HEX(i), 32, '0'))"
)

// padded returns the SQL expression for the body of row i: the row's own email, and a text of this many bytes.
func padded(bytes int) string {
	return fmt.Sprintf("CONCAT('{\"email\": \"', i, '@x.org\", \"pad\": \"', REPEAT('x', %d), '\"}')", bytes)
}

func hugeTransaction(ctx context.Context, l *boundLab, n int) error {
	return l.insertNumbered(ctx, cellColumns, keyOfNumber+", 'users', 1, "+padded(1<<20), n)
}

func hugeBodies(ctx context.Context, l *boundLab, n int) error {
	return l.insertNumbered(ctx, cellColumns, keyOfNumber+", 'users', 1, "+padded(60<<20), n)
}

func oneEntity(ctx context.Context, l *boundLab, n int) error {
	return l.insertNumbered(ctx, cellColumns, "REPEAT('e', 16), CONCAT('c', i), 1, "+padded(0), n)
}

func badRows(ctx context.Context, l *boundLab, n int) error {
	return l.insertNumbered(ctx, cellColumns, keyOfNumber+", 'users', 1, CONCAT('{\"email\": ', i, '@x.org')", n)
}

// lettersKept checks that the program has n dead letters, and that the index table is empty.
func lettersKept(ctx context.Context, l *boundLab, n int) error {
	file := launch.Program{Dir: filepath.Join(l.dir, "bound")}.File()
	out, err := exec.CommandContext(ctx, l.program, "deadletters", "list", "--json", "-c", file).Output()
	if err != nil {
		return fmt.Errorf("deadletters list: %w", err)
	}
	if kept := bytes.Count(out, []byte("\n")); kept != n {
		return fmt.Errorf("the result is wrong: %d dead letters of %d bad rows", kept, n)
	}
	return l.rows(ctx, "index_email", 0)
}

// tinyDDL creates a table that has ten rows for each key, with different numbers.
const tinyDDL = "CREATE TABLE " + sourceDatabase + ".tiny (id BIGINT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, v INT NOT NULL)"

func tinyRows(ctx context.Context, l *boundLab, n int) error {
	if _, err := l.sourceDB.ExecContext(ctx, tinyDDL); err != nil {
		return err
	}
	return l.insertNumbered(ctx, "tiny (k, v)", fmt.Sprintf("i %% %d, i", tinyKeys(n)), n)
}

func tinyKeys(n int) int { return max(n/10, 1) }

// tinyViews returns the configuration of a Redis hash view that shows each key's newest number. In MySQL, the case
// would take ten times as long.
func tinyViews(l *boundLab, _ int) string {
	return "[tables.tiny]\nkey = \"k\"\nversion = \"id\"\noffset = \"id\"\n\n" + hashSink(l.cache) +
		"\n[views.tiny]\nfrom = \"tiny\"\nsink = \"main\"\nkind = \"hash\"\nkey = \"tiny:{k}\"\nfields = [\"v\"]\n"
}

// redis returns a client for the lab's Redis. The caller closes the client.
func (l *boundLab) redis() (*redis.Client, error) {
	o, err := redis.ParseURL(l.cache.DSN("0"))
	if err != nil {
		return nil, err
	}
	return redis.NewClient(o), nil
}

// tinyHashes checks that each key's hash shows the key's newest number.
func tinyHashes(ctx context.Context, l *boundLab, n int) (err error) {
	rdb, err := l.redis()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	distinct := tinyKeys(n)
	return ranges(0, 1, distinct, laneBatch, func(from, to int) error {
		cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for k := from; k < to; k++ {
				p.HGet(ctx, fmt.Sprintf("tiny:%d", k), "v")
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, cmd := range cmds {
			k := from + i
			if held, want := cmd.(*redis.StringCmd).Val(), strconv.Itoa(n-(n-k)%distinct); held != want {
				return fmt.Errorf("the result is wrong: key %d has %s, not %s", k, held, want)
			}
		}
		return nil
	})
}

// writeBacklog writes ten versions of each user on average.
func writeBacklog(ctx context.Context, l *boundLab, n int) error {
	l.workload = &workload{entities: max(n/10, 1), body: l.body, begin: time.Now().UnixNano()}
	return l.writeCells(ctx, 0, n)
}

func checkBacklog(ctx context.Context, l *boundLab, n int) error {
	_, err := table("index_email").verify(ctx, l.sinkDB, boundsDatabase, l.workload, n)
	return err
}

// writePhased writes one row of each user.
func (l *boundLab) writePhased(ctx context.Context, n int) error {
	l.workload = &workload{entities: n, body: l.body, begin: time.Now().UnixNano(), order: phased}
	return l.writeCells(ctx, 0, n)
}

const manyCells = 1000

func manyTables(n int) (ddl []string) {
	for i := range n {
		ddl = append(ddl, indexDDL(fmt.Sprintf("index_%d", i)))
	}
	return ddl
}

func manyViews(l *boundLab, n int) string {
	text := mainSink(l)
	for i := range n {
		text += table(fmt.Sprintf("index_%d", i)).view("cell.users", "main")
	}
	return text
}

func manyRows(ctx context.Context, l *boundLab, n int) error {
	for i := range n {
		if err := l.rows(ctx, fmt.Sprintf("index_%d", i), manyCells); err != nil {
			return err
		}
	}
	return nil
}

// churn creates, alters and fills tables that no view reads, and drops half of them. It writes a row after each table.
func churn(ctx context.Context, l *boundLab, n int) error {
	l.workload = &workload{entities: n, body: l.body, begin: time.Now().UnixNano(), order: phased}
	if _, err := l.sourceDB.ExecContext(ctx, "CREATE DATABASE other"); err != nil {
		return err
	}
	return batches(ctx, l.sourceDB, 4, n, 1, func(ctx context.Context, conn *sql.Conn, i, _ int) error {
		statements := []string{"CREATE TABLE other.t%d (a INT PRIMARY KEY)", "INSERT INTO other.t%d VALUES (1)",
			"ALTER TABLE other.t%d ADD b TEXT", "INSERT INTO other.t%d VALUES (2, 'b')"}
		if i%2 == 0 {
			statements = append(statements, "DROP TABLE other.t%d")
		}
		for _, q := range statements {
			if _, err := conn.ExecContext(ctx, fmt.Sprintf(q, i)); err != nil {
				return err
			}
		}
		return l.workload.insert(ctx, conn, sourceDatabase, i, i+1)
	})
}

// bombSize is the decompressed size of each body in the case "bombs".
const bombSize = 16 << 20

func bombs(ctx context.Context, l *boundLab, n int) error {
	table := strings.Replace(cellDDL, "TABLE cell", "TABLE "+sourceDatabase+".bomb", 1)
	if _, err := l.sourceDB.ExecContext(ctx, table); err != nil {
		return err
	}
	var body bytes.Buffer
	w := zlib.NewWriter(&body)
	_, err := fmt.Fprintf(w, `{"email": "bomb@x.org", "pad": %q}`, strings.Repeat("x", bombSize))
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return batches(ctx, l.sourceDB, 1, n, 10, func(ctx context.Context, conn *sql.Conn, from, to int) error {
		var args []any
		for i := from; i < to; i++ {
			args = append(args, fmt.Sprintf("%016x", i), body.Bytes())
		}
		_, err := conn.ExecContext(ctx, "INSERT INTO "+sourceDatabase+".bomb (row_key, column_name, ref_key, body) VALUES "+
			list("(?, 'users', 1, ?)", to-from), args...)
		return err
	})
}

func bombViews(l *boundLab, n int) string {
	return "[tables.bomb]\nkey = \"row_key\"\ncolumn = \"column_name\"\nversion = \"ref_key\"\n" +
		"offset = \"added_at\"\nbody = \"body\"\ncodec = \"zlib+json\"\n\n" + emailIndex("bomb.users")(l, n)
}
