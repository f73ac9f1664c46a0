package elastic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
)

const (
	benchBatch = 800 // the size of the batches of a pipeline's lane
	benchLanes = 2
)

// BenchmarkApply compares the sink with raw _bulk requests of the same documents: new documents, and newer versions of
// existing documents. The sink wrote the latter lately ("newer"), or must read them first ("forgotten"). One iteration
// is a batch in each of two lanes.
func BenchmarkApply(b *testing.B) {
	url := servertest.Elasticsearch(b)
	body := func(n int64, round int) []any {
		return []any{fmt.Sprintf("user-%d@example.org", n), fmt.Sprintf("a city with a name %d", round),
			n*1_000_003 + int64(round)}
	}
	lanes := func(work func(lane int)) {
		var wg sync.WaitGroup
		for lane := range benchLanes {
			wg.Go(func() { work(lane) })
		}
		wg.Wait()
	}
	documents := func(b *testing.B, before usage) {
		n := float64(b.N * benchBatch * benchLanes)
		b.ReportMetric(n/b.Elapsed().Seconds(), "docs/s")
		used := newCluster(b, url).usage()
		b.ReportMetric((used.server-before.server)*1e6/n, "server-µs/doc")
		b.ReportMetric((used.client-before.client)*1e6/n, "client-µs/doc")
	}
	for _, kind := range []string{"new", "newer", "forgotten"} {
		from := func(i, lane int) int64 {
			if kind != "new" {
				i %= 4
			}
			return int64((i*benchLanes + lane) * benchBatch)
		}
		b.Run(kind+"/raw", func(b *testing.B) {
			c := newCluster(b, url)
			index := servertest.Name()
			c.do("PUT", "/"+index, `{"settings": {"number_of_shards": 1, "number_of_replicas": 0}}`)
			b.Cleanup(func() { c.do("DELETE", "/"+index, "") })
			send := func(i, lane int) {
				var text bytes.Buffer
				for n := from(i, lane); n < from(i, lane)+benchBatch; n++ {
					v := body(n, i)
					fmt.Fprintf(&text, "{\"index\":{\"_id\":\"%d\"}}\n{\"email\":%q,\"city\":%q,\"n\":%d}\n", n, v[0], v[1], v[2])
				}
				res, err := c.own.Post(url+"/"+index+"/_bulk?filter_path=errors", "application/x-ndjson", &text)
				if err != nil || res.StatusCode != http.StatusOK {
					b.Error(err, res)
					return
				}
				var answer bytes.Buffer
				if _, err := answer.ReadFrom(res.Body); err != nil || answer.String() != `{"errors":false}` {
					b.Error(answer.String(), err)
				}
				res.Body.Close()
			}
			for i := range 8 {
				lanes(func(lane int) { send(i, lane) })
			}
			before := c.usage()
			b.ResetTimer()
			for i := range b.N {
				lanes(func(lane int) { send(i+8, lane) })
			}
			documents(b, before)
		})
		b.Run(kind+"/sink", func(b *testing.B) {
			c := newCluster(b, url)
			v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "email", "city", "n")
			v.Settings = elastic.Settings{Index: v.Name, IndexSettings: `{"number_of_shards": 1, "number_of_replicas": 0}`}
			b.Cleanup(func() { c.drop(indexOf(v)) })
			sink := newSink(b, url)
			defer sink.Close()
			target, err := sink.Open(b.Context(), "", []*replicator.View{v})
			if err != nil {
				b.Fatal(err)
			}
			apply := func(i, lane int) {
				ops := make([]replicator.Op, 0, benchBatch)
				for n := from(i, lane); n < from(i, lane)+benchBatch; n++ {
					ops = append(ops, op(cellOf(b, "users", n), int64(i+1), body(n, i)...))
				}
				if a, err := target.Apply(b.Context(), ops); err != nil || len(a.Stale)+len(a.Rejected) > 0 {
					b.Error(a, err)
				}
			}
			for i := range 8 {
				lanes(func(lane int) { apply(i, lane) })
			}
			before := c.usage()
			b.ResetTimer()
			for i := range b.N {
				if kind == "forgotten" {
					target, err = sink.Open(b.Context(), "", []*replicator.View{v})
					if err != nil {
						b.Fatal(err)
					}
				}
				lanes(func(lane int) { apply(i+8, lane) })
			}
			documents(b, before)
		})
	}
}

// usage is the CPU time used so far, in seconds. It depends less than the elapsed time on how busy the machine is.
type usage struct{ server, client float64 }

func (c *cluster) usage() (u usage) {
	c.t.Helper()
	var nodes struct {
		Nodes map[string]struct {
			Process struct {
				CPU struct {
					Total int64 `json:"total_in_millis"`
				} `json:"cpu"`
			} `json:"process"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(c.do("GET", "/_nodes/_local/stats/process", ""), &nodes); err != nil {
		c.t.Fatal(err)
	}
	for _, n := range nodes.Nodes {
		u.server += float64(n.Process.CPU.Total) / 1000
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		c.t.Fatal(err)
	}
	for _, t := range []syscall.Timeval{own.Utime, own.Stime} {
		u.client += float64(t.Sec) + float64(t.Usec)/1e6
	}
	return u
}
