package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"replicator"
)

// Elasticsearch accepts requests of up to 100 MB (http.max_content_length) by default. If a server's limit is smaller
// (413), or it has no room for the request (429), a request with several documents is split.
const (
	maxDocument = 90 << 20
	bulkBytes   = 8 << 20 // about the largest size of a request with several documents
	bulkItems   = 1000    // the most documents in a request
)

func errTooLarge(size int) error {
	if size > 0 {
		return fmt.Errorf("the document has %d MiB, which is more than Elasticsearch accepts in one request", size>>20)
	}
	return fmt.Errorf("the document is larger than the cluster's http.max_content_length or " +
		"indexing_pressure.memory.limit")
}

// document is one document in a batch, from the first read until it is written.
type document struct {
	index       string // the alias to write to
	horizon     int64  // log position below which deleted cells may have been forgotten
	id, routing string
	keeper      *keeper // keeper of the document's view; nil for the progress document, which holds the view's marks
	changes     []change

	whole      bool // to read: read the fields, not only the state; once read: this was done
	known      bool // `exists` is set, because the document was read, remembered, or assumed to be new
	remembered bool // the document was not read: what is known of it comes from this target's last write
	exists     bool
	seq, term  int64 // _seq_no and _primary_term of the last read or write; the next write requires them
	source     []byte
	read       contents         // the cells that the document has, as read or remembered
	next       contents         // the cells that the document is to have; nil: nothing is to be written
	refused    map[string]error // why cells' contributions can't be stored, by the cells' names (see slotName)
	tries      int
	remove     bool

	text    []byte   // the JSON to write as the document, while the request is sent
	failure *failure // why the last read or write failed; nil if it succeeded
	written bool
}

// read reads documents by id, as they are now. It reads small documents whole, because extracting only the state costs
// the server more than sending the rest. Merged documents (of several cells) are always read whole, because
// Elasticsearch writes the numbers in a filtered source as doubles.
func (c *client) read(ctx context.Context, documents []*document) error {
	if err := c.readEach(ctx, documents); err != nil {
		return err
	}
	for _, d := range documents {
		switch {
		case d.failure == nil:
		case d.failure.isGone():
			return gone(d.index)
		case d.keeper != nil:
			return inView(d.keeper.view, d.failure.classify())
		default:
			return d.failure
		}
	}
	return nil
}

// readEach reads documents, and notes the failure of each that can't be read. An error means that a whole request
// failed.
func (c *client) readEach(ctx context.Context, documents []*document) error {
	return c.inParts(documents, func(part []*document) error {
		var wholes, states []*document
		for _, d := range part {
			if d.needsWhole() {
				wholes = append(wholes, d)
			} else {
				states = append(states, d)
			}
		}
		if err := c.readSome(ctx, wholes, true); err != nil {
			return err
		}
		return c.readSome(ctx, states, false)
	})
}

func (d *document) needsWhole() bool { return d.whole || d.keeper == nil || !d.keeper.sizes.large() }

// inParts splits documents into parts that are small enough to be read together, and calls `deal` with each part.
func (c *client) inParts(documents []*document, deal func(part []*document) error) error {
	for len(documents) > 0 {
		n := c.part(documents)
		if err := deal(documents[:n]); err != nil {
			return err
		}
		documents = documents[n:]
	}
	return nil
}

func (c *client) part(documents []*document) int {
	items, states, size := 0, 0, 0
	for i, d := range documents {
		switch {
		case d.known:
			continue
		case d.needsWhole():
			items++
			size += d.size()
		default:
			states++
		}
		if i > 0 && (items > readItems || states > c.states.documents() || size > answerBytes) {
			return i
		}
	}
	return len(documents)
}

func (d *document) size() int {
	if d.keeper == nil {
		return 500 // a progress document (with a view's marks) has about this many bytes
	}
	n := 0
	for i := range d.changes {
		for _, f := range d.changes[i].slot.fields {
			n += len(f)
		}
	}
	return max(n, d.keeper.sizes.expected())
}

// readSome reads documents with one request, or with several if the answer to one would be too large.
func (c *client) readSome(ctx context.Context, documents []*document, whole bool) error {
	if len(documents) == 0 {
		return nil
	}
	body := []byte(`{"docs":[`)
	for i, d := range documents {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(d.appendAddress(append(body, '{')), '}')
	}
	request, most := esapi.MgetRequest{Body: bytes.NewReader(append(body, "]}"...))}, int64(0)
	if !whole {
		request.SourceIncludes = stateAlone
	}
	if len(documents) > 1 {
		most = mostAnswer
	}
	began := time.Now()
	answer, err := c.receive(ctx, request, most)
	if !whole {
		c.states.learn(len(documents), len(answer), time.Since(began))
	}
	if errors.Is(err, errTooMuch) {
		for _, d := range documents {
			if d.keeper != nil && whole {
				d.keeper.sizes.raise(len(answer) / len(documents))
			}
		}
		return c.readEach(ctx, documents)
	}
	if err != nil {
		return err
	}
	return found(answer, documents, whole)
}

func found(answer []byte, documents []*document, whole bool) error {
	found, err := readAnswer(answer, len(documents))
	if err != nil {
		return err
	}
	if len(found) != len(documents) {
		return fmt.Errorf("the cluster's answer has %d documents instead of %d", len(found), len(documents))
	}
	for i, d := range documents {
		f := found[i]
		if d.failure = f.Error; d.failure != nil {
			d.failure.Status = d.failure.statusOfType() // an item of an _mget answer has no status
			continue
		}
		d.known, d.exists, d.seq, d.term, d.source = true, f.Found, f.Seq, f.Term, f.Source
		if d.whole = whole; whole && d.exists && d.keeper != nil {
			d.keeper.sizes.learn(len(d.source))
		}
	}
	return nil
}

func gone(index string) error {
	return fmt.Errorf("the index behind %s was removed, or lost that alias: %w", index, replicator.ErrSinkLost)
}

// write writes documents, each only if it is unchanged since it was read, and notes each result. An error means that a
// whole request failed. Then some documents may be written and others not.
func (c *client) write(ctx context.Context, documents []*document) error {
	for len(documents) > 0 {
		n, size := 0, 0
		for n < len(documents) && n < bulkItems && (n == 0 || size+len(documents[n].rendered()) <= bulkBytes) {
			size += len(documents[n].rendered()) + 200
			n++
		}
		if err := c.writeSome(ctx, documents[:n], size); err != nil {
			return err
		}
		for _, d := range documents[:n] {
			d.text = nil
		}
		documents = documents[n:]
	}
	return nil
}

// rendered returns the JSON to write as the document. It makes the JSON only when the document's request is sent, to
// limit memory.
func (d *document) rendered() []byte {
	if d.text == nil && !d.remove {
		d.text = d.keeper.render(nil, d.next)
	}
	return d.text
}

func (c *client) writeSome(ctx context.Context, documents []*document, size int) error {
	body := make([]byte, 0, size)
	for _, d := range documents {
		body = d.appendItem(body)
	}
	alias := true
	answer, err := c.send(ctx, esapi.BulkRequest{Body: bytes.NewReader(body), RequireAlias: &alias,
		FilterPath: []string{"items.*.status", "items.*.error", "items.*._seq_no", "items.*._primary_term"},
		Header:     http.Header{"Content-Type": {"application/x-ndjson"}}})
	alone := len(documents) == 1
	if alone && (isTooLarge(err) || isAbovePressure(err)) {
		documents[0].failure = &failure{Status: http.StatusRequestEntityTooLarge, reason: asFailure(err).reason}
		return nil
	}
	if !alone && (isTooLarge(err) || isRejected(err)) {
		half := len(documents) / 2
		if err := c.writeSome(ctx, documents[:half], size/2); err != nil {
			return err
		}
		return c.writeSome(ctx, documents[half:], size/2)
	}
	if err != nil {
		return err
	}
	return results(answer, documents)
}

func (d *document) appendAddress(b []byte) []byte {
	b = replicator.AppendJSON(append(b, `"_index":`...), d.index)
	b = replicator.AppendJSON(append(b, `,"_id":`...), d.id)
	if d.routing != "" {
		b = replicator.AppendJSON(append(b, `,"routing":`...), d.routing)
	}
	return b
}

// appendItem appends the lines for one document: a create if the document does not exist, and otherwise a conditional
// overwrite or delete.
func (d *document) appendItem(b []byte) []byte {
	if !d.exists {
		b = d.appendAddress(append(b, `{"create":{`...))
	} else {
		action := `{"index":{`
		if d.remove {
			action = `{"delete":{`
		}
		b = d.appendAddress(append(b, action...))
		b = append(b, `,"if_seq_no":`...)
		b = strconv.AppendInt(b, d.seq, 10)
		b = append(b, `,"if_primary_term":`...)
		b = strconv.AppendInt(b, d.term, 10)
	}
	b = append(b, "}}\n"...)
	if d.remove {
		return b
	}
	return append(append(b, d.rendered()...), '\n')
}

func results(answer []byte, documents []*document) error {
	items, err := writeAnswer(answer, len(documents))
	if err != nil {
		return err
	}
	if len(items) != len(documents) {
		return fmt.Errorf("the cluster's answer has %d items instead of %d", len(items), len(documents))
	}
	for i, d := range documents {
		item := items[i]
		// A document that the index's pipeline dropped also has status 200, but no term.
		if d.failure, d.written = nil, isSuccess(item.Status) && item.Term > 0; d.written {
			d.seq, d.term = item.Seq, item.Term
			continue
		}
		if d.failure = item.Error; d.failure == nil {
			d.failure = &failure{}
		}
		d.failure.Status = item.Status
	}
	return nil
}
