package elastic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
	"replicator/sinks/sinktest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

var tables = []replicator.Table{
	{Name: "cell", Key: []string{"row_key"}, Column: "column_name", Version: "ref_key"},
	{Name: "fav", Key: []string{"object_id", "user_id"}},
}

// indexOf returns the alias that shows a view.
func indexOf(v *replicator.View) string { return v.Settings.(elastic.Settings).Index }

func setMapping(v *replicator.View, mapping string) {
	s := v.Settings.(elastic.Settings)
	s.Mapping = mapping
	v.Settings = s
}

func fields(paths ...string) []replicator.Field {
	var out []replicator.Field
	for _, p := range paths {
		out = append(out, replicator.Field{Name: p, Path: p})
	}
	return out
}

// cluster is an Elasticsearch cluster with a plain HTTP client, so that tests can check without the sink what the sink
// wrote.
type cluster struct {
	t   testing.TB
	url string
	own *http.Client
}

func newCluster(t testing.TB, url string) *cluster {
	h := &http.Transport{}
	t.Cleanup(h.CloseIdleConnections)
	return &cluster{t: t, url: url, own: &http.Client{Transport: h}}
}

// ask sends a request and returns the status and the body.
func (c *cluster) ask(method, path, body string) (int, []byte) {
	c.t.Helper()
	req, err := http.NewRequest(method, c.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.own.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, answer
}

// do sends a request that must succeed, and returns the body.
func (c *cluster) do(method, path, body string) []byte {
	c.t.Helper()
	status, answer := c.ask(method, path, body)
	if status >= 300 {
		c.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

func (c *cluster) isOpenSearch() bool {
	c.t.Helper()
	status, answer := c.ask("GET", "/", "") // Elasticsearch's test distribution refuses it
	return status == http.StatusOK && bytes.Contains(answer, []byte(`"opensearch"`))
}

// search returns the unchanged sources of all documents that an alias shows, by id.
func (c *cluster) search(alias string) map[string]json.RawMessage {
	c.t.Helper()
	c.do("POST", "/"+alias+"/_refresh", "")
	return c.hits(alias)
}

// hits does what search does without a refresh, so it returns what readers see.
func (c *cluster) hits(alias string) map[string]json.RawMessage {
	c.t.Helper()
	var result struct {
		Hits struct {
			Hits []struct {
				ID     string          `json:"_id"`
				Source json.RawMessage `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
	}
	if err := json.Unmarshal(c.do("POST", "/"+alias+"/_search", `{"size": 10000}`), &result); err != nil {
		c.t.Fatal(err)
	}
	out := map[string]json.RawMessage{}
	for _, h := range result.Hits.Hits {
		out[h.ID] = h.Source
	}
	return out
}

// indexes returns the names of an alias's indexes.
func (c *cluster) indexes(alias string) []string {
	c.t.Helper()
	var found map[string]any
	if err := json.Unmarshal(c.do("GET", "/"+alias+"-r*?filter_path=*.aliases&expand_wildcards=all",
		""), &found); err != nil {
		c.t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(found))
}

// drop removes the indexes of an alias.
func (c *cluster) drop(alias string) {
	for _, name := range c.indexes(alias) {
		c.do("DELETE", "/"+name, "")
	}
}

// oneShard keeps tests small and fast. Writes need not be durable, because no test stops the machine. Without automatic
// refreshes, readers see new documents only after an explicit refresh.
const oneShard = `{"number_of_shards": 1, "number_of_replicas": 0, "translog.durability": "async", "refresh_interval": "-1"}`

func view(name string, from []replicator.Feed, paths ...string) *replicator.View {
	return &replicator.View{Name: name, Kind: "document", Settings: elastic.Settings{Index: name, IndexSettings: oneShard},
		From: from, Fields: fields(paths...), Fingerprint: "1"}
}

func newSink(t testing.TB, url string, views ...*replicator.View) *elastic.Sink {
	t.Helper()
	return newSinkOf(t, elastic.Config{Addresses: []string{url}, Views: views})
}

func newSinkOf(t testing.TB, c elastic.Config) *elastic.Sink {
	t.Helper()
	c.Name, c.Tables = "search", tables
	c.Partitions = func(context.Context) ([]string, error) { // the suite's sources that share cells, and its shards
		return []string{"one", "other", "one/0", "other/0"}, nil
	}
	s, err := elastic.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) { conforms(t, servertest.Elasticsearch(t), sinktest.Run) }

// conforms runs the conformance suite, or only its histories, for a sink in a cluster.
func conforms(t *testing.T, url string, run func(*testing.T, sinktest.Subject)) {
	c := newCluster(t, url)
	name := servertest.Name()
	users, profile := replicator.Feed{Table: "cell", Column: "users"}, replicator.Feed{Table: "cell", Column: "profile"}
	views := []*replicator.View{
		view(name+"-users", []replicator.Feed{users}, "email", "city"),
		view(name+"-people", []replicator.Feed{profile, users}, "email", "city"),
		view(name+"-everything", []replicator.Feed{{Table: "cell"}}, "city"),
		view(name+"-favorites", []replicator.Feed{{Table: "fav"}}, "email"),
	}
	for i, v := range views { // so that the suite's bad value is refused in every view
		setMapping(v, `{"properties": {"email": {"type": "keyword"}}}`)
		if i == 1 {
			setMapping(v, `{"mappings": {"dynamic": "strict", "properties": {"email": {"type": "keyword"}, "city": {"type": "keyword"}}}}`)
		}
		t.Cleanup(func() { c.drop(indexOf(v)) })
	}
	looks := &shown{cluster: c, views: views, ids: map[string]bool{}}
	// Close waits this long for searches of other programs. Here only the suite searches, so a short time is enough.
	quick := elastic.Config{Addresses: []string{url}, Views: views, SearchTime: 300 * time.Millisecond}
	run(t, sinktest.Subject{
		Tables: tables, Views: views, Histories: 8,
		New:  func(t testing.TB) replicator.Sink { return looks.watch(newSinkOf(t, quick)) },
		Read: looks.read, Search: looks.reader, Plant: looks.plant, Remove: looks.remove,
		Bad: map[string]any{"email": replicator.ObjectOf(map[string]any{"an": "object"})},
		SetMark: func(t testing.TB, source, view string, at *replicator.Standing) {
			for _, v := range views {
				if v.Name == view {
					c.setMark(v, source, at)
				}
			}
		},
		DamageMark: func(t testing.TB, source, view string) {
			for _, index := range c.indexes(view) {
				c.do("PUT", "/"+index+"/_doc/replicator:marks",
					`{"_replicator": {"hidden": true, "cells": {"marks": {"`+source+`": {"order": "x"}}}}}`)
			}
		},
	})
	for _, v := range views {
		if left := c.indexes(indexOf(v)); len(left) != 1 {
			t.Errorf("of view %s there are the indexes %v in the end", v.Name, left)
		}
	}
}

// shown reads what the aliases of all views show. After a mark, which ends a history, it searches, as a reader does.
// Before that it gets the written documents by their ids, because a search needs a refresh, and refreshes would take
// longer than the rest of a history.
type shown struct {
	cluster *cluster
	views   []*replicator.View
	known   map[string]map[string]string // what the views show; nil after a write

	mu     sync.Mutex
	ids    map[string]bool // ids of the documents written so far
	marked bool
}

func (s *shown) wrote(ops []replicator.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range ops {
		s.ids[op.Cell.Key.String()] = true
	}
	s.known, s.marked = nil, false
}

// changed notes that something other than an op changed documents, so that the next read searches.
func (s *shown) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.marked = nil, true
}

func (s *shown) watch(sink *elastic.Sink) replicator.Sink {
	return watched{elastic.Shadowing{Sink: sink}, s}
}

type watched struct {
	elastic.Shadowing
	shown *shown
}

func (w watched) Swap(ctx context.Context, source string, views []*replicator.View) error {
	defer w.shown.changed()
	return w.Shadowing.Swap(ctx, source, views)
}

func (w watched) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := w.Sink.Open(ctx, source, views)
	if err != nil {
		return nil, err
	}
	return watchedTarget{t.(*elastic.Target), w.shown}, nil
}

type watchedTarget struct {
	*elastic.Target
	shown *shown
}

func (w watchedTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	w.shown.wrote(ops)
	return w.Target.Apply(ctx, ops)
}

func (w watchedTarget) Mark(ctx context.Context, at replicator.Standing) error {
	defer w.shown.changed()
	return w.Target.Mark(ctx, at)
}

func (w watchedTarget) Tidy(ctx context.Context, view int, strays []replicator.Stray) (int, error) {
	defer w.shown.changed()
	return w.Target.Tidy(ctx, view, strays)
}

// plant overwrites the document in which a view shows a cell.
func (s *shown) plant(t testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
	t.Helper()
	defer s.changed()
	values := map[string]any{}
	for i, f := range v.Fields {
		values[f.Name] = entries[0].Fields[i]
	}
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	s.cluster.do("PUT", "/"+indexOf(v)+"/_doc/"+c.Key.String(), string(text))
}

// remove removes the document in which a view shows a cell.
func (s *shown) remove(_ testing.TB, v *replicator.View, c replicator.Cell, _ []replicator.Entry) {
	defer s.changed()
	s.cluster.ask("DELETE", "/"+indexOf(v)+"/_doc/"+c.Key.String(), "") // may be gone
}

// reader returns what searches now see of a view.
func (s *shown) reader(t testing.TB, v *replicator.View) map[string]string {
	t.Helper()
	seen := map[string]string{}
	for id, source := range s.cluster.hits(indexOf(v)) {
		seen[id] = rowText(t, v, source)
	}
	return seen
}

func (s *shown) read(t testing.TB, v *replicator.View) map[string]string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != nil {
		return s.known[indexOf(v)]
	}
	if s.known = map[string]map[string]string{}; s.marked {
		s.search(t)
	} else {
		s.get(t)
	}
	return s.known[indexOf(v)]
}

func (s *shown) search(t testing.TB) {
	t.Helper()
	empty := true
	for _, v := range s.views {
		s.known[indexOf(v)] = map[string]string{}
		for id, source := range s.cluster.search(indexOf(v)) {
			s.known[indexOf(v)][id], empty = rowText(t, v, source), false
		}
	}
	if empty {
		clear(s.ids)
	}
}

func (s *shown) get(t testing.TB) {
	t.Helper()
	var docs []map[string]string
	for _, v := range s.views {
		s.known[indexOf(v)] = map[string]string{}
		for id := range s.ids {
			docs = append(docs, map[string]string{"_index": indexOf(v), "_id": id})
		}
	}
	if len(docs) == 0 {
		return
	}
	body, err := json.Marshal(map[string]any{"docs": docs})
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Docs []struct {
			ID     string          `json:"_id"`
			Found  bool            `json:"found"`
			Source json.RawMessage `json:"_source"`
		} `json:"docs"`
	}
	if err := json.Unmarshal(s.cluster.do("POST", "/_mget", string(body)), &found); err != nil {
		t.Fatal(err)
	}
	for i, d := range found.Docs {
		v := s.views[i/len(s.ids)]
		if d.Found && !bytes.Contains(d.Source, []byte(`"hidden":true`)) {
			s.known[indexOf(v)][d.ID] = rowText(t, v, d.Source)
		}
	}
}

func rowText(t testing.TB, v *replicator.View, source []byte) string {
	t.Helper()
	var values map[string]any
	if err := json.Unmarshal(source, &values); err != nil {
		t.Fatal(err)
	}
	row := make([]any, len(v.Fields))
	for i, f := range v.Fields {
		row[i] = values[f.Name]
	}
	return sinktest.RowText(v, row)
}

// setMark changes a view's stored mark by plain HTTP.
func (c *cluster) setMark(v *replicator.View, source string, at *replicator.Standing) {
	c.t.Helper()
	for _, index := range c.indexes(indexOf(v)) {
		path := "/" + index + "/_doc/replicator:marks"
		status, answer := c.ask("GET", path, "")
		if status == http.StatusNotFound {
			continue
		}
		var doc struct {
			Source struct {
				State struct {
					Hidden bool `json:"hidden"`
					Cells  struct {
						Marks map[string]any `json:"marks"`
					} `json:"cells"`
				} `json:"_replicator"`
			} `json:"_source"`
		}
		if err := json.Unmarshal(answer, &doc); err != nil {
			c.t.Fatal(err)
		}
		marks := doc.Source.State.Cells.Marks
		if delete(marks, source); at != nil {
			phase := "filled"
			if at.Filling() {
				phase = "filling"
			}
			marks[source] = map[string]any{"order": at.Position.Order, "token": at.Position.Token, "phase": phase,
				"fill": at.Fill, "fill_from": at.FillFrom, "epoch": at.Epoch}
		}
		text, err := json.Marshal(doc.Source)
		if err != nil {
			c.t.Fatal(err)
		}
		c.do("PUT", path, string(text))
	}
}
