package elastic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

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

func fields(paths ...string) []replicator.Field {
	var out []replicator.Field
	for _, p := range paths {
		out = append(out, replicator.Field{Name: p, Path: p})
	}
	return out
}

// cluster is an Elasticsearch and a plain HTTP client for it: what the sink wrote is looked at without its help.
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

// do is ask for requests that must succeed.
func (c *cluster) do(method, path, body string) []byte {
	c.t.Helper()
	status, answer := c.ask(method, path, body)
	if status >= 300 {
		c.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// search returns the sources of all documents that an alias shows, as they stand there, by id.
func (c *cluster) search(alias string) map[string]json.RawMessage {
	c.t.Helper()
	c.do("POST", "/"+alias+"/_refresh", "")
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

// drop removes the indexes of an alias.
func (c *cluster) drop(alias string) {
	var found map[string]any
	if err := json.Unmarshal(c.do("GET", "/"+alias+"-r*?filter_path=*.aliases&expand_wildcards=all", ""), &found); err != nil {
		c.t.Error(err)
	}
	for name := range found {
		c.do("DELETE", "/"+name, "")
	}
}

const oneShard = `{"number_of_shards": 1, "number_of_replicas": 0}`

// settings keep tests small.
func view(name string, from []replicator.Feed, paths ...string) *replicator.View {
	return &replicator.View{Name: name, Kind: "document", Index: name, From: from, Fields: fields(paths...), Settings: oneShard, Fingerprint: "1"}
}

func newSink(t testing.TB, url string) *elastic.Sink {
	t.Helper()
	s, err := elastic.New(elastic.Config{Name: "search", Addresses: []string{url}, Tables: tables})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	url := servertest.Elasticsearch(t)
	c := newCluster(t, url)
	name := servertest.Name()
	users, profile := replicator.Feed{Table: "cell", Column: "users"}, replicator.Feed{Table: "cell", Column: "profile"}
	strict := view(name+"-strict", []replicator.Feed{users}, "email", "city")
	strict.Mapping = `{"dynamic": "strict", "properties": {"email": {"type": "keyword"}, "city": {"type": "keyword"}}}`
	views := []*replicator.View{
		view(name+"-users", []replicator.Feed{users}, "email", "city"),
		strict,
		view(name+"-people", []replicator.Feed{profile, users}, "email", "city"),
		view(name+"-everything", []replicator.Feed{{Table: "cell"}}, "city"),
		view(name+"-favorites", []replicator.Feed{{Table: "fav"}}, "email"),
	}
	for _, v := range views[:3] { // a bad value must be one for every view that has it
		if v.Mapping == "" {
			v.Mapping = `{"properties": {"email": {"type": "keyword"}}}`
		}
	}
	views[4].Mapping = `{"properties": {"email": {"type": "keyword"}}}`
	t.Cleanup(func() {
		for _, v := range views {
			c.drop(v.Index)
		}
	})
	sinktest.Run(t, sinktest.Subject{
		Tables: tables, Views: views, Histories: 100,
		New: func(t testing.TB) replicator.Sink { return newSink(t, url) },
		Read: func(t testing.TB, v *replicator.View) map[string]string {
			out := map[string]string{}
			for id, source := range c.search(v.Index) {
				var values map[string]any
				if err := json.Unmarshal(source, &values); err != nil {
					t.Fatal(err)
				}
				row := make([]any, len(v.Fields))
				for i, f := range v.Fields {
					row[i] = values[f.Name]
				}
				out[id] = sinktest.RowText(v, row)
			}
			return out
		},
		Bad: map[string]any{"email": map[string]any{"an": "object"}},
		SetMark: func(t testing.TB, source, view string, p *replicator.Position) {
			c.setMark(views, source, view, p)
		},
	})
}

// setMark changes a view's stored mark by plain HTTP.
func (c *cluster) setMark(views []*replicator.View, source, view string, p *replicator.Position) {
	c.t.Helper()
	for _, v := range views {
		if v.Name != view {
			continue
		}
		var found map[string]any
		if err := json.Unmarshal(c.do("GET", "/"+v.Index+"-r*?filter_path=*.aliases&expand_wildcards=all", ""), &found); err != nil {
			c.t.Fatal(err)
		}
		for index := range found {
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
			if p == nil {
				delete(doc.Source.State.Cells.Marks, source)
			} else {
				doc.Source.State.Cells.Marks[source] = map[string]any{"order": p.Order, "token": p.Token, "phase": "filling"}
			}
			text, err := json.Marshal(doc.Source)
			if err != nil {
				c.t.Fatal(err)
			}
			c.do("PUT", path, string(text))
		}
	}
}

var _ = fmt.Sprint
