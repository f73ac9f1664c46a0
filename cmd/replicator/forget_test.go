package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// The sinks forget deleted rows while the program runs. A process with an older state directory must not bring such
// rows back.
func TestDeletedRowsAreForgottenAndStayDeleted(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.env["ELASTIC"], l.env["INDEX"] = servertest.Elasticsearch(t), servertest.Name()
	l.exec("CREATE TABLE cart (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL)",
		"CREATE TABLE carts (id INT PRIMARY KEY, name VARCHAR(20))", "INSERT INTO cart VALUES (0, 'kept')")
	l.configure(source, program[:strings.Index(program, "[tables.cell]")], mainSink, `
[limits]
deleted = "1s"

[tables.cart]
key = "id"
`+redisSink+elasticSink+`
[views.cart_search]
from = "cart"
sink = "search"
kind = "document"
index = "${INDEX}"
fields = ["name"]

[views.carts]
from = "cart"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = ["name"]

[views.cart_cache]
from = "cart"
sink = "cache"
kind = "json"
key = "cart:{id}"
fields = ["name"]
`)
	l.must("run", "--until-caught-up")
	older := filepath.Join(l.dir, "older")
	if err := os.CopyFS(older, os.DirFS(filepath.Join(l.dir, "state"))); err != nil {
		t.Fatal(err)
	}
	p := l.running()
	const rows = 100
	var carts []string
	for id := range rows {
		carts = append(carts, fmt.Sprintf("(%d, 'old')", id+1))
	}
	l.exec("INSERT INTO cart VALUES " + strings.Join(carts, ","))
	l.caughtUp()
	l.expect("SELECT COUNT(*) FROM replicator_state", fmt.Sprint(rows+1))
	l.exec("DELETE FROM cart WHERE id > 0")
	l.caughtUp()
	l.exec("UPDATE cart SET name = 'still' WHERE id = 0")
	l.becomes("SELECT COUNT(*) FROM replicator_state", "1")
	eventually(t, func() error {
		keys, err := rdb.Keys(t.Context(), "replicator:entity:*").Result()
		if err == nil && len(keys) != 1 {
			err = fmt.Errorf("the cache remembers %d carts, want the one that lives", len(keys))
		}
		return err
	})
	documents := l.env["ELASTIC"] + "/" + l.env["INDEX"] + "-r1/"
	eventually(t, func() error { // one of the documents has the marks
		var found struct{ Count int }
		askElastic(t, http.MethodPost, documents+"_refresh", nil)
		askElastic(t, http.MethodGet, documents+"_count", &found)
		if found.Count != 2 {
			return fmt.Errorf("the index has %d documents, want two", found.Count)
		}
		return nil
	})
	p.stop()
	state := filepath.Join(l.dir, "state")
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(older, state); err != nil {
		t.Fatal(err)
	}
	l.must("run", "--until-caught-up")
	l.expect("SELECT id, name FROM carts", "0 still")
	if keys, err := rdb.Keys(t.Context(), "cart:*").Result(); err != nil || len(keys) != 1 {
		t.Errorf("the cache shows %v (%v), want cart 0", keys, err)
	}
	askElastic(t, http.MethodPost, documents+"_refresh", nil)
	var shown struct{ Count int }
	askElastic(t, http.MethodGet, l.env["ELASTIC"]+"/"+l.env["INDEX"]+"/_count", &shown)
	if shown.Count != 1 {
		t.Errorf("the search shows %d carts, want one", shown.Count)
	}
	p = l.running() // the repeated deletes made states again, which must be forgotten, too
	l.exec("UPDATE cart SET name = 'there' WHERE id = 0")
	l.becomes("SELECT COUNT(*) FROM replicator_state", "1")
	p.stop()
}
