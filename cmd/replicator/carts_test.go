package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers/servertest"
)

// carts is a table whose rows are inserted and deleted, with a view of it in each sink.
type carts struct {
	*lab
	rdb    *goredis.Client
	living int // the number of rows that are never deleted
}

// cartSpace is the space that carts take in the program and its sinks, in bytes. states is the number of rows in the
// table of states, and documents is the number of documents in the index.
type cartSpace struct{ redis, elastic, mysql, states, documents, program int64 }

// asBefore returns an error if a sink takes over 5 % more space than before. Elasticsearch keeps what was deleted for up
// to half a minute, for replicas that may need it (index.soft_deletes.retention_lease).
func (n cartSpace) asBefore(before cartSpace) error {
	const step = 1 << 20 // the steps in which tables grow, and buffers of clients
	for _, one := range []struct {
		what      string
		was, left int64
	}{{"Redis", before.redis, n.redis}, {"MySQL", before.mysql, n.mysql}, {"Elasticsearch", before.elastic, n.elastic}} {
		if one.left > one.was+one.was/20+step {
			return fmt.Errorf("%s takes %d bytes, and took %d before the rows came", one.what, one.left, one.was)
		}
	}
	return nil
}

func newCarts(t *testing.T, living int) *carts {
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.env["ELASTIC"], l.env["INDEX"] = servertest.Elasticsearch(t), servertest.Name()
	l.exec("CREATE TABLE cart (id BIGINT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40) NOT NULL)",
		"CREATE TABLE carts (id BIGINT PRIMARY KEY, item VARCHAR(40))")
	l.configure(source, program[:strings.Index(program, "[tables.cell]")], mainSink, `
[limits]
deleted = "2s"

[tables.cart]
key = "id"

[sinks.cache]
type = "redis"
url = "${REDIS}"

[sinks.search]
type = "elastic"
addresses = ["${ELASTIC}"]

[views.cart_search]
from = "cart"
sink = "search"
kind = "document"
index = "${INDEX}"
fields = ["item"]

[views.carts]
from = "cart"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = ["item"]

[views.cart_cache]
from = "cart"
sink = "cache"
kind = "hash"
key = "cart:{id}"
fields = ["item"]
`)
	c := &carts{l, rdb, living}
	c.insert(living)
	l.must("run", "--until-caught-up")
	return c
}

// insert adds rows, a few thousand with each statement.
func (c *carts) insert(n int) {
	c.t.Helper()
	for ; n > 0; n -= 5000 {
		row := "('an item that was put into a cart')"
		c.exec("INSERT INTO cart (item) VALUES " + strings.Repeat(row+",", min(n, 5000)-1) + row)
	}
}

// forget waits until each sink has removed the states of deleted rows.
func (c *carts) forget() {
	c.t.Helper()
	c.caughtUp()
	eventually(c.t, func() error {
		c.exec("UPDATE cart SET item = 'a beat' WHERE id = 1", "UPDATE cart SET item = 'another' WHERE id = 1")
		is := c.measure()
		records := c.rdb.DBSize(c.t.Context()).Val()/2 - 2 // each hash has a record; the sink has a few more keys
		if is.states > int64(c.living) || records > int64(c.living) || is.documents > int64(c.living)+1 {
			return fmt.Errorf("%d states, %d records and %d documents are left, %d carts live",
				is.states, records, is.documents, c.living)
		}
		return nil
	})
}

func (c *carts) measure() cartSpace {
	c.t.Helper()
	var n cartSpace
	if err := c.db.QueryRowContext(c.t.Context(), "SELECT COUNT(*) FROM replicator_state").Scan(&n.states); err != nil {
		c.t.Fatal(err)
	}
	n.redis = usedMemory(c.t, c.rdb)
	var found struct{ Count int64 }
	askElastic(c.t, http.MethodPost, c.env["ELASTIC"]+"/"+c.env["INDEX"]+"-r1/_refresh", nil)
	askElastic(c.t, http.MethodGet, c.env["ELASTIC"]+"/"+c.env["INDEX"]+"-r1/_count", &found)
	n.documents = found.Count
	return n
}

// space returns the measured space after the servers have reclaimed what they can.
func (c *carts) space() cartSpace {
	c.t.Helper()
	c.exec("ANALYZE TABLE replicator_state")
	n := c.measure()
	n.mysql = c.tableBytes("replicator_state")
	n.elastic = indexBytes(c.t, c.env["ELASTIC"], c.env["INDEX"])
	return n
}

// Rows that were inserted and deleted take no space once the sinks have forgotten them. With REPLICATOR_SOAK, each
// round inserts 200,000 rows, and as many are never deleted.
func TestCartsThatAreGoneLeaveTheSinksAsTheyWere(t *testing.T) {
	rows := 2000
	if os.Getenv("REPLICATOR_SOAK") != "" {
		rows = 200_000
	}
	c := newCarts(t, rows)
	p := c.running()
	comeAndGo := func() {
		c.insert(rows)
		c.caughtUp()
		c.exec(fmt.Sprintf("DELETE FROM cart WHERE id > %d", rows))
		c.forget()
	}
	comeAndGo() // Redis doubles its table of keys (8 bytes each) once, and shrinks it only when 90 % of it are empty
	before := c.space()
	t.Logf("before: %+v", before)
	for round := range 3 {
		comeAndGo()
		began := time.Now()
		eventually(t, func() error {
			after := c.space()
			t.Logf("%v after round %d: %+v", time.Since(began).Round(time.Second), round+1, after)
			return after.asBefore(before)
		})
	}
	p.stop()
}

// Rows are inserted and deleted all the time, and neither the program nor the sinks may grow. With REPLICATOR_SOAK=1h,
// the test inserts 2,000 rows a second for an hour and logs the sizes each minute.
func TestNothingGrowsWhereRowsComeAndGo(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("REPLICATOR_SOAK"))
	soak := err == nil && lasts >= 10*time.Minute
	rate, every := 2000, time.Minute
	if !soak {
		lasts, rate, every = 6*time.Second, 200, 2*time.Second
	}
	c := newCarts(t, 1000)
	p := c.running()
	beat := time.NewTicker(100 * time.Millisecond)
	defer beat.Stop()
	var all []cartSpace
	begun, inserted := time.Now(), 0
	for next := begun.Add(every); time.Since(begun) < lasts; {
		<-beat.C
		c.insert(rate / 10)
		inserted += rate / 10
		c.exec(fmt.Sprintf("DELETE FROM cart WHERE id > 1000 AND id <= %d", 1000+inserted-3*rate)) // rows live 3 s
		if time.Now().After(next) {
			next = next.Add(every)
			n := c.measure()
			n.program = processMemory(t, p.Pid(), "VmRSS:")
			t.Logf("%s: %+v", time.Since(begun).Round(time.Second), n)
			all = append(all, n)
		}
	}
	if soak {
		// On a busy machine, walks fall behind for a while. They must not do so by more than three minutes of deletions.
		early, late, most := all[9], all[len(all)-1], int64(180*rate) // buffers fill during the first ten minutes
		if late.states > most || late.documents > most || late.redis > early.redis+200*most ||
			late.program > early.program+early.program/5 {
			t.Errorf("%+v at the end, %+v after ten minutes", late, early)
		}
	}
	c.exec("DELETE FROM cart WHERE id > 1000")
	c.forget()
	p.stop()
}
