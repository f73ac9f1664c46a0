package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"replicator/internal/servers"
)

// documentIndex is the name of the index that the bench writes directly, and the alias of the index that the program
// writes.
const documentIndex = "users"

// The mapping and the settings of both indexes: the one that the bench writes directly, and the program's. The index
// refreshes each second, like an index that is searched. By default, an index without searches does not refresh.
const (
	documentMapping = `{"properties": {"username": {"type": "keyword"}, "email": {"type": "keyword"}, "phone": {"type": "long"},
		"password": {"type": "keyword"}, "activate": {"type": "boolean"}}}`
	documentSettings = `{"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "1s"}`
)

// keptDocument starts an Elasticsearch and returns a document view in it.
func (l *lab) keptDocument(ctx context.Context) (*kept, error) {
	files := map[string]string{}
	for name, text := range map[string]string{"mapping": documentMapping, "settings": documentSettings} {
		files[name] = filepath.Join(l.dir, name+".json")
		if err := os.WriteFile(files[name], []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	server, err := l.start(ctx, servers.Elasticsearch)
	if err != nil {
		return nil, err
	}
	d := &documents{url: server.DSN(""), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: lanes}}}
	return &kept{name: "elastic", what: "an Elasticsearch document", server: server,
		targets: fmt.Sprintf("[sinks.main]\ntype = \"elastic\"\naddresses = [%q]\n\n[views.users]\nfrom = \"cell.users\"\n"+
			"sink = \"main\"\nkind = \"document\"\nindex = %q\nmapping_file = %q\nsettings_file = %q\n%s",
			d.url, documentIndex, files["mapping"], files["settings"], userFields),
		raw:    &rawWrites{name: "raw-bulk", how: "_bulk of the same documents", create: d.create, drop: d.drop, write: d.write},
		verify: d.verify,
		close: func() error {
			d.http.CloseIdleConnections()
			return server.Close()
		}}, nil
}

// documents is a client of an Elasticsearch that contains a document for each user.
type documents struct {
	url  string
	http *http.Client
}

func (d *documents) create(ctx context.Context) error {
	return d.call(ctx, http.MethodPut, "/"+documentIndex, fmt.Appendf(nil, `{"settings": %s, "mappings": %s}`,
		documentSettings, documentMapping), nil)
}

func (d *documents) drop(ctx context.Context) error {
	return d.call(ctx, http.MethodDelete, "/"+documentIndex, nil, nil)
}

func (d *documents) write(ctx context.Context, users []user) error {
	body := make([]byte, 0, 300*len(users))
	for i := range users {
		u := &users[i]
		body = fmt.Appendf(body, "{\"index\":{\"_id\":\"%x\"}}\n", u.key)
		body = fmt.Appendf(body, "{\"username\":%q,\"email\":%q,\"phone\":%d,\"password\":%q,\"activate\":%t}\n",
			u.username, u.email, u.phone, u.password, u.activate)
	}
	var done struct {
		Errors bool `json:"errors"`
	}
	if err := d.call(ctx, http.MethodPost, "/"+documentIndex+"/_bulk?filter_path=errors", body, &done); err != nil {
		return err
	}
	if done.Errors {
		return fmt.Errorf("a raw _bulk of %d documents did not write all of them", len(users))
	}
	return nil
}

func (d *documents) verify(ctx context.Context, w *workload, n int) (int64, error) {
	newest := w.newest(n)
	if err := ranges(0, 1, len(newest), laneBatch, func(from,
		to int) error {
		return d.compare(ctx, w, newest, from, to)
	}); err != nil {
		return 0, err
	}
	if err := d.call(ctx, http.MethodPost, "/"+documentIndex+"/_refresh", nil, nil); err != nil {
		return 0, err
	}
	var held struct {
		Count int64 `json:"count"`
	}
	err := d.call(ctx, http.MethodGet, "/"+documentIndex+"/_count", nil, &held)
	if err == nil && held.Count != int64(len(newest)) {
		err = fmt.Errorf("there are %d documents for %d entities", held.Count, len(newest))
	}
	return held.Count, err
}

func (d *documents) compare(ctx context.Context, w *workload, newest []int, from, to int) error {
	ids := make([]string, 0, to-from)
	for entity := from; entity < to; entity++ {
		key := w.key(entity)
		ids = append(ids, `"`+hex.EncodeToString(key[:])+`"`)
	}
	var found struct {
		Docs []struct {
			ID     string                     `json:"_id"`
			Source map[string]json.RawMessage `json:"_source"`
		} `json:"docs"`
	}
	path := "/" + documentIndex + "/_mget?_source_excludes=_replicator"
	if err := d.call(ctx, http.MethodPost, path, []byte(`{"ids":[`+strings.Join(ids, ",")+`]}`), &found); err != nil {
		return err
	}
	if len(found.Docs) != to-from {
		return fmt.Errorf("an _mget of %d documents returned %d", to-from, len(found.Docs))
	}
	for i, doc := range found.Docs {
		held := map[string]string{}
		for name, value := range doc.Source {
			held[name] = strings.Trim(string(value), `"`) // no text in the workload needs JSON escapes
		}
		if want := w.user(w.at(newest[from+i])).hash(); !maps.Equal(held, want) {
			return fmt.Errorf("document %s is %v, not %v", doc.ID, held, want)
		}
	}
	return nil
}

// call sends a request and decodes the answer into the value to which `into` points. If `into` is nil, call ignores the
// answer's body.
func (d *documents) call(ctx context.Context, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	if !strings.Contains(path, "/_bulk") {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := d.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %.500s", method, path, res.Status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
