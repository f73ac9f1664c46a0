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

// OpenSearch began as a copy of Elasticsearch 7. This file handles the differences:
//   - Its answers don't name the product, so the client asks for it.
//   - A point in time has another path, and can't be sorted by _shard_doc.
//   - It has no field type flattened. The similar flat_object refuses texts that are longer than a term.
//   - It has no request for a user's privileges.
//
// errors.go knows the names of both products' errors.

var errStranger = errors.New("the server that answers is neither Elasticsearch 7.14 or newer (it sends no header " +
	"X-Elastic-Product) nor OpenSearch (GET / does not say so). Check the sink's addresses")

const openSearch = "opensearch"

// recognise refuses a successful answer from a server that is neither Elasticsearch nor OpenSearch: other servers
// accept the same requests and mean something else by them. OpenSearch names itself only when the client asks. The
// client asks again after each lost connection.
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

// info is the answer to GET /.
type info struct {
	Version struct {
		Number       string `json:"number"`
		Distribution string `json:"distribution"` // set by OpenSearch
	} `json:"version"`
}

// product returns the server's name, the major releases that replicator supports, and advice for any other release.
func (c *client) product() (name string, major []string, fix string) {
	if c.openSearch.Load() {
		return "OpenSearch", []string{"2", "3"}, "the program is tested with OpenSearch 2.19; 2.4 or newer is expected to work"
	}
	return "Elasticsearch", []string{"8", "9"},
		"the program is tested with Elasticsearch 8.19; 8.0 or newer is expected to work"
}

// own is a request that only OpenSearch has.
type own struct {
	method, path string
	body         object
}

// Do implements esapi.Request. It sends the request.
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

func (c *client) openPoint(ctx context.Context, alias string) (id string, err error) {
	var opened struct {
		ID      string `json:"id"`
		Another string `json:"pit_id"` // OpenSearch's name for the field "id"
	}
	var open esapi.Request = esapi.OpenPointInTimeRequest{Index: []string{alias}, KeepAlive: keepPoint}
	if c.openSearch.Load() {
		open = own{method: http.MethodPost, path: "/" + alias + "/_search/point_in_time?keep_alive=" + keepPoint}
	}
	err = c.call(ctx, open, &opened)
	return opened.ID + opened.Another, err
}

// closePoint closes a point in time. Otherwise it would stay open until it expires.
func (c *client) closePoint(ctx context.Context, id string) {
	var end esapi.Request = esapi.ClosePointInTimeRequest{Body: body(object{"id": id})}
	if c.openSearch.Load() {
		end = own{http.MethodDelete, "/_search/point_in_time", object{"pit_id": []string{id}}}
	}
	_ = c.call(ctx, end, nil)
}

// pageOrder returns the field by which the pages of a point in time are sorted, and whether its values are unique.
// OpenSearch sorts by a document's last sequence number, which is unique only within a shard.
func (c *client) pageOrder() (field string, apart bool) {
	if c.openSearch.Load() {
		return "_seq_no", false
	}
	return "_shard_doc", true
}

// dropLastTies drops the last hits of a full page: all those with the page's last sequence number. The next page starts
// after a sequence number, and documents of several shards may have the same one. If all hits have the same number, no
// hit is left.
func dropLastTies(found []hit) []hit {
	last := found[len(found)-1].Sort
	return found[:slices.IndexFunc(found, func(h hit) bool { return bytes.Equal(h.Sort, last) })]
}

// known adapts a mapping to the cluster. OpenSearch has no type that accepts all values of a flattened field, so such a
// field is not indexed (see unsearched).
func (c *client) known(properties object) object {
	if !c.openSearch.Load() {
		return properties
	}
	for name, field := range properties {
		m, _ := field.(object)
		if inner, ok := m["properties"].(object); ok { // the fields of a join's rows
			c.known(inner)
		} else if m["type"] == "flattened" {
			properties[name] = unsearched()
		}
	}
	return properties
}
