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

// Elasticsearch takes requests of up to 100 MB (http.max_content_length) unless it is told otherwise; a smaller limit
// shows itself by a 413, and the request is then split. So it is by a 429, for which a smaller one may have room: one
// that is larger than indexing_pressure.memory.limit (a tenth of the heap) never has any.
const (
	maxDocument = 90 << 20
	bulkBytes   = 8 << 20 // a request is sent once it holds so much
	bulkItems   = 1000
)

func errTooLarge(size int) error {
	if size > 0 {
		return fmt.Errorf("the document has %d MiB, more than Elasticsearch takes in one request", size>>20)
	}
	return fmt.Errorf("the document is larger than the cluster's http.max_content_length, or than its " +
		"indexing_pressure.memory.limit")
}

// document is one document in a batch, from the first look at it until it is written.
type document struct {
	index       string // the alias to write to
	horizon     int64  // see gate
	id, routing string
	keeper      *keeper // nil for a registry
	changes     []change

	whole      bool // it has to be read, or was read, with its fields, and not for its state alone
	known      bool // whether it exists is known, or taken for granted
	remembered bool // it was not read: what is known is what it was when it was written last
	exists     bool
	seq, term  int64 // what a write is conditional on, or how it was written
	source     []byte
	read       contents         // as it was read
	next       contents         // as it is to be written
	refused    map[string]error // by slot: why what it contributes can't be stored
	tries      int
	remove     bool // nothing is to be left of it

	text    []byte   // what is to be written, rendered: while it is
	failure *failure // how the last read or write ended; nil if it succeeded
	written bool
}

// read reads documents, as they are now and not as of the last refresh: to read as of that would save nothing. They are
// read whole: three quarters of what a read costs the server (some 25 µs a document) is that Lucene unpacks the block
// that holds the source, whichever part of it is asked for, and to cut out the state costs twice what it costs to send
// the rest. Where documents are large it is the other way round; a merged one is read whole all the same, as
// Elasticsearch writes anew what it cuts out, and numbers as doubles.
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

// readEach reads documents, and notes those that can't be read. An error is one of a whole request.
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

// needsWhole reports whether the document is to be read whole.
func (d *document) needsWhole() bool { return d.whole || d.keeper == nil || !d.keeper.sizes.large() }

// inParts deals with documents in parts, each of as many as may be read at once.
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

// part is how many of the documents may be read at once.
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

// size is about how large the document is.
func (d *document) size() int {
	if d.keeper == nil {
		return 500 // marks
	}
	n := 0
	for i := range d.changes {
		for _, f := range d.changes[i].slot.fields {
			n += len(f)
		}
	}
	return max(n, d.keeper.sizes.expected())
}

// readSome reads documents by one request, or, where they turn out to be too large for one, by several.
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

// found notes what was answered of each document.
func found(answer []byte, documents []*document, whole bool) error {
	found, err := readAnswer(answer, len(documents))
	if err != nil {
		return err
	}
	if len(found) != len(documents) {
		return fmt.Errorf("the cluster answers with %d documents of %d", len(found), len(documents))
	}
	for i, d := range documents {
		f := found[i]
		if d.failure = f.Error; d.failure != nil {
			d.failure.Status = d.failure.statusOfType() // the item doesn't say
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

// write writes documents, each only if it still is as it was read, and notes how each write ended. An error is one of a
// whole request: some documents may be written and others not.
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

// rendered is what is to be written. Where a batch has large documents, those of one request are in memory as texts.
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

// appendAddress appends where the document is.
func (d *document) appendAddress(b []byte) []byte {
	b = replicator.AppendJSON(append(b, `"_index":`...), d.index)
	b = replicator.AppendJSON(append(b, `,"_id":`...), d.id)
	if d.routing != "" {
		b = replicator.AppendJSON(append(b, `,"routing":`...), d.routing)
	}
	return b
}

// appendItem appends the lines of one document: created if there was none, else written over what was read.
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

// results notes what became of each item.
func results(answer []byte, documents []*document) error {
	items, err := writeAnswer(answer, len(documents))
	if err != nil {
		return err
	}
	if len(items) != len(documents) {
		return fmt.Errorf("the cluster answers with %d items of %d", len(items), len(documents))
	}
	for i, d := range documents {
		item := items[i]
		// One that the index's pipeline dropped has status 200, too, but no place in the index.
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
