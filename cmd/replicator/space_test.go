package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers/servertest"
)

// The sinks' space must be between half and twice of what docs/sizing.md says, apart from the steps in which tables
// grow. With -v, the test prints new measurements. REPLICATOR_SOAK=1 uses 50,000 cells.
func TestTheSinksTakeTheSpaceThatSizingSays(t *testing.T) {
	cells := 5000
	if os.Getenv("REPLICATOR_SOAK") != "" {
		cells = 50000
	}
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	search, index := servertest.Elasticsearch(t), servertest.Name()
	l.env["REDIS"], l.env["ELASTIC"], l.env["INDEX"] = "redis://"+redis.Addr()+"/0", search, index
	l.session("CREATE TABLE cell (added_at BIGINT AUTO_INCREMENT PRIMARY KEY, row_key BINARY(16) NOT NULL, "+
		"ref_key BIGINT NOT NULL, body JSON, UNIQUE (row_key, ref_key))",
		"SET cte_max_recursion_depth = 100000",
		"INSERT INTO cell (row_key, ref_key, body) WITH RECURSIVE n (i) AS "+
			"(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "+
			strconv.Itoa(cells)+") SELECT LEFT(UNHEX(SHA2(i, 256)), 16), 1, JSON_OBJECT('email', "+
			"CONCAT('user-', i, '@example.org'), 'city', ELT(1 + i % 5, 'Lyon', 'Oslo', 'Porto', 'Gdansk', 'Graz'), "+
			"'name', CONCAT('somebody ', i)) FROM n", "ANALYZE TABLE cell")
	l.configure(source, program[:strings.Index(program, "[tables.cell]")], `
[tables.cell]
key = "row_key"
version = "ref_key"
offset = "added_at"
body = "body"
codec = "json"
`, mainSink, redisSink+elasticSink+`
[views.by_email]
from = "cell"
sink = "main"
kind = "index"
fields = ["email"]
create = true
types = { email = "VARCHAR(100)" }

[views.people]
from = "cell"
sink = "main"
kind = "row"
key = { id = "$row_key" }
fields = ["email", "city", "name"]
create = true
types = { email = "VARCHAR(100)", city = "VARCHAR(40)", name = "VARCHAR(40)" }

[views.cached]
from = "cell"
sink = "cache"
kind = "hash"
key = "user:{row_key}"
fields = ["email", "city", "name"]

[views.found]
from = "cell"
sink = "search"
kind = "document"
index = "${INDEX}"
fields = ["email", "city", "name"]
`)
	empty := usedMemory(t, rdb)
	l.must("run", "--until-caught-up")
	l.exec("ANALYZE TABLE by_email, people, replicator_state")
	for _, c := range []struct {
		name        string
		taken, said int64 // bytes in total; documented bytes for each cell, including its state if the view stores it
	}{
		{"by_email", l.tableBytes("by_email"), 210},
		{"people", l.tableBytes("people"), 158},
		{"state of both", l.tableBytes("replicator_state"), 158},
		{"cached", usedMemory(t, rdb) - empty, 157 + 160},
		{"found", indexBytes(t, search, index), 108 + 30},
	} {
		t.Logf("%s: %d bytes a cell", c.name, c.taken/int64(cells))
		const step = 1 << 20 // the steps in which tables' files grow
		said := c.said * int64(cells)
		if c.taken > 2*said+step || said > 2*c.taken {
			t.Errorf("%s takes %d bytes, docs/sizing.md says %d", c.name, c.taken, said)
		}
	}
}

// tableBytes returns the size of a table in the lab's database.
func (l *lab) tableBytes(table string) int64 {
	l.t.Helper()
	db := l.connect(l.server, l.database)
	db.SetMaxOpenConns(1)
	defer db.Close()
	execAll(l.t, db, "SET SESSION information_schema_stats_expiry = 0")
	n, err := strconv.ParseInt(rowsOf(l.t, db, "SELECT data_length + index_length FROM information_schema.tables "+
		"WHERE table_schema = DATABASE() AND table_name = '"+table+"'")[0], 10, 64)
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// usedMemory returns the memory that a Redis uses for its data.
func usedMemory(t *testing.T, rdb *goredis.Client) int64 {
	t.Helper()
	info, err := rdb.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "used_memory:")
	n, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// indexBytes returns an index's size on disk after a merge.
func indexBytes(t *testing.T, address, index string) int64 {
	t.Helper()
	var size struct {
		All struct {
			Primaries struct {
				Store struct {
					Bytes int64 `json:"size_in_bytes"`
				}
			}
		} `json:"_all"`
	}
	for _, ask := range [][2]string{{"POST", "/_flush"}, {"POST", "/_forcemerge?max_num_segments=1"}, {"POST", "/_flush"},
		{"GET", "/_stats/store"}} {
		r, err := http.NewRequestWithContext(t.Context(), ask[0], address+"/"+index+ask[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", ask[1], answer.StatusCode, err, text)
		}
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&size); err != nil {
			t.Fatal(err)
		}
	}
	return size.All.Primaries.Store.Bytes
}
