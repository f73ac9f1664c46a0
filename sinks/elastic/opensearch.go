package elastic

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

// OpenSearch takes the requests of Elasticsearch 7, from which it came, and all that has not become another since is in
// this file:
//   - who answers is not said by each answer, so it is asked for;
//   - a point in time has a path of its own, and no order of its documents by _shard_doc;
//   - there is no field type flattened. What is like it, flat_object, refuses texts that are longer than a term;
//   - nobody can be asked what a user may do.
//
// What errors are called is in errors.go, where both makes' stand side by side.

// errStranger is a server that is neither.
var errStranger = errors.New("the server that answers is neither Elasticsearch 7.14 or newer (it sends no header " +
	"X-Elastic-Product) nor OpenSearch (GET / does not say so): check the sink's addresses")

const openSearch = "opensearch"

// recognise refuses a successful answer that is neither Elasticsearch's nor OpenSearch's: other servers take the same
// requests, and mean others. OpenSearch says who it is where it is asked, once for as long as it is reached.
func (c *client) recognise(ctx context.Context, answer *esapi.Response) error {
	if answer.StatusCode >= 300 {
		return nil
	}
	if answer.Header.Get("X-Elastic-Product") == "Elasticsearch" {
		c.openSearch.Store(false)
		return nil
	}
	if c.openSearch.Load() && !c.doubted.Load() {
		return nil
	}
	res, err := esapi.InfoRequest{}.Do(ctx, c.elastic)
	if err != nil {
		return c.lost(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return c.lost(err)
	}
	if res.StatusCode >= 300 {
		return refused(res.StatusCode, text)
	}
	var said info
	if decode(text, &said) != nil || said.Version.Distribution != openSearch {
		return replicator.Fatal(errStranger)
	}
	c.openSearch.Store(true)
	c.doubted.Store(false)
	return nil
}

// info is what GET / answers.
type info struct {
	Version struct {
		Number       string `json:"number"`
		Distribution string `json:"distribution"` // OpenSearch's
	} `json:"version"`
}

// product is what answers, the major releases that it is expected to work with, and what to say of any other.
func (c *client) product() (name string, major []string, fix string) {
	if c.openSearch.Load() {
		return "OpenSearch", []string{"2", "3"}, "the program is tested with OpenSearch 2.19; 2.4 or newer is expected to work"
	}
	return "Elasticsearch", []string{"8", "9"},
		"the program is tested with Elasticsearch 8.19; 8.0 or newer is expected to work"
}

// own is a request of OpenSearch's that Elasticsearch does not know.
type own struct {
	method, path string
	body         object
}

// Do implements esapi.Request.
func (r own) Do(ctx context.Context, over esapi.Transport) (*esapi.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, r.path, nil)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Body = io.NopCloser(body(r.body))
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := over.Perform(req)
	if err != nil {
		return nil, err
	}
	return &esapi.Response{StatusCode: res.StatusCode, Header: res.Header, Body: res.Body}, nil
}

// openPoint opens a point in time of what an alias leads to.
func (c *client) openPoint(ctx context.Context, alias string) (id string, err error) {
	var opened struct {
		ID      string `json:"id"`
		Another string `json:"pit_id"` // as OpenSearch calls it
	}
	var open esapi.Request = esapi.OpenPointInTimeRequest{Index: []string{alias}, KeepAlive: keepPoint}
	if c.openSearch.Load() {
		open = own{method: http.MethodPost, path: "/" + alias + "/_search/point_in_time?keep_alive=" + keepPoint}
	}
	err = c.call(ctx, open, &opened)
	return opened.ID + opened.Another, err
}

// closePoint closes a point in time. Otherwise it would expire later.
func (c *client) closePoint(ctx context.Context, id string) {
	var end esapi.Request = esapi.ClosePointInTimeRequest{Body: body(object{"id": id})}
	if c.openSearch.Load() {
		end = own{http.MethodDelete, "/_search/point_in_time", object{"pit_id": []string{id}}}
	}
	_ = c.call(ctx, end, nil)
}

// pageOrder is the field that pages of a point in time are sorted by, and whether it tells all documents apart. In
// OpenSearch they are sorted by the number of their last write, of which each shard has one alike: see whole.
func (c *client) pageOrder() (field string, apart bool) {
	if c.openSearch.Load() {
		return "_seq_no", false
	}
	return "_shard_doc", true
}

// whole are the hits of a page that is full without those at its end that the next page would begin with others like
// them: what is searched after is a number, of which several shards may have a document. If all of the page are alike
// it has none.
func whole(found []hit) []hit {
	last := found[len(found)-1].Sort
	return found[:slices.IndexFunc(found, func(h hit) bool { return bytes.Equal(h.Sort, last) })]
}

// known is a mapping as the cluster knows it. What has no type there that refuses nothing is not searched.
func (c *client) known(properties object) object {
	if !c.openSearch.Load() {
		return properties
	}
	for name, field := range properties {
		m, _ := field.(object)
		if inner, ok := m["properties"].(object); ok { // of the rows of a join
			c.known(inner)
		} else if m["type"] == "flattened" {
			properties[name] = unsearched()
		}
	}
	return properties
}
