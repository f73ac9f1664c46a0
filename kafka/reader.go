package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/kafkaclient"
)

// Reader reads one partition for one pipeline.
type Reader struct {
	source *Source
	client *kafkaclient.Client
	topic  Topic
	start  token
	tables map[string]replicator.Table

	decoder changelog.Decoder // only Read's goroutine uses it

	mu      sync.Mutex
	history []moment  // sorted by offset; `Position` removes entries that are no longer needed
	latest  int64     // the partition's end when Latest last requested it
	asked   time.Time // the time when Latest last asked for the partition's end

	// complete is the last time at which this reader is known to have missed no tombstone (see token.Time). Zero: not
	// known.
	complete time.Time
}

// moment is what is known about an offset: how far the publisher has read its database (mark), and when the record
// before the offset was written (at).
type moment struct {
	offset int64
	mark   mark
	at     time.Time
}

func newReader(s *Source, client *kafkaclient.Client, topic Topic, start token, tables []string) *Reader {
	r := &Reader{source: s, client: client, topic: topic, start: start, tables: map[string]replicator.Table{}}
	for _, t := range s.cfg.Tables {
		if len(tables) == 0 || slices.Contains(tables, t.Name) {
			r.tables[t.Name] = t
		}
	}
	if start.Partitions > 0 {
		s.partitions.Store(start.Partitions)
	}
	switch {
	case start.Time != 0:
		r.complete = time.Unix(start.Time, 0)
	case start.Offset == 0:
		r.complete = time.Now()
	}
	r.history = []moment{{offset: start.Offset, mark: start.Mark, at: r.complete}}
	return r
}

// Start implements replicator.Reader. It returns the position at which Read begins.
func (r *Reader) Start() replicator.Position { return r.start.position() }

// File implements replicator.Reader. A partition has no files.
func (r *Reader) File() int64 { return 0 }

// Close implements replicator.Reader. It closes the connections to Kafka.
func (r *Reader) Close() error {
	r.client.Close()
	return nil
}

// mostRecords is how many records one poll returns at most.
const mostRecords = 1000

// Read implements replicator.Reader. It delivers the changes in the partition's records to `h`, from the start position
// on.
func (r *Reader) Read(ctx context.Context, h replicator.Handler) error {
	h.Commit(r.start.Offset, time.Time{})
	for {
		fetched := r.client.PollRecords(ctx, mostRecords)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, e := range fetched.Errors() {
			return r.failed(e.Err)
		}
		next := moment{}
		var committed time.Time
		for _, record := range fetched.Records() {
			at, err := r.deliver(ctx, h, record)
			if err != nil {
				return err
			}
			if !at.IsZero() {
				committed = at
			}
			next.offset, next.at = record.Offset+1, record.Timestamp
		}
		if next.offset > 0 {
			r.note(next)
			h.Commit(next.offset, committed)
		}
	}
}

// failed wraps an error of a fetch, with ErrLost if Kafka has removed the next records.
func (r *Reader) failed(err error) error {
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return fmt.Errorf("the next records are gone: %w: %w", replicator.ErrLost, err)
	}
	return err
}

// deliver passes the changes in a record to `h`. `committed` is the time when the publisher's database committed the
// last of these changes. It is zero if the record has no changes, or if the time is not known.
func (r *Reader) deliver(ctx context.Context, h replicator.Handler, in *kgo.Record) (committed time.Time, err error) {
	r.source.stats.records.Add(1)
	r.source.stats.bytes.Add(int64(len(in.Key) + len(in.Value)))
	switch {
	case in.Attrs.IsControl():
		return committed, nil
	case changelog.IsMark(in):
		_, source, m, err := changelog.DecodeMark(in)
		if err == nil && m != nil {
			r.source.partitions.Store(int32(m.Partitions))
			err = r.marked(in, mark{source, m.Standing.Position})
		}
		return committed, err
	}
	changes, err := r.changes(&r.decoder, in)
	if err != nil {
		return committed, err
	}
	for _, c := range changes {
		r.source.stats.changes.Add(1)
		committed = c.Time
		if err := h.Change(ctx, c); err != nil {
			return committed, err
		}
	}
	return committed, nil
}

// note adds m to the history, with the publisher's last known progress as m.mark.
func (r *Reader) note(m moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.history[len(r.history)-1]
	m.mark = last.mark
	r.enter(m)
}

// marked remembers how far the publisher has read its database, according to a mark in the record `in`. A new
// publisher's first mark may be zero, because the publisher has no progress yet. Then the last known progress stays.
func (r *Reader) marked(in *kgo.Record, m mark) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.history[len(r.history)-1].mark
	switch {
	case m.IsZero():
		m = last
	case !last.IsZero() && m.Source != last.Source:
		return twoOrigins(r.topic.Name, last.Source, m.Source)
	case m.Epoch() < last.Epoch():
		return replicator.Fatal(fmt.Errorf("topic %s: its publisher started again without knowing what it had published, "+
			"so its new records would count as older than what the views hold. Let it publish to another topic, and "+
			"list that topic in [source] topics of all replicators that read it (docs/scale.md, \"Another topic\")",
			r.topic.Name))
	}
	r.enter(moment{offset: in.Offset + 1, mark: m, at: in.Timestamp})
	return nil
}

// twoOrigins is the error for a topic with rows of two databases, whose log positions can't be ordered.
func twoOrigins(topic, one, other string) error {
	return replicator.Fatal(fmt.Errorf("topic %s holds cells of both %s and %s, whose order is not known. "+
		"Publish each to a separate topic, and name both topics in [source] topics", topic,
		changelog.Origin(one), changelog.Origin(other)))
}

// enter appends a moment to the history, or replaces the last moment if that has the same offset. r.mu is held.
func (r *Reader) enter(m moment) {
	if n := len(r.history); r.history[n-1].offset == m.offset {
		r.history[n-1] = m
		return
	}
	r.history = append(r.history, m)
}

// Position implements replicator.Reader. The parameter `order` is an offset. The position's Time (see token.Time) is
// when the offset was last known to be the partition's end. If it was not the end, Time is when the record before it
// was written, or r.complete if that is later.
func (r *Reader) Position(order int64) replicator.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed := 0
	for i, m := range r.history {
		if m.offset <= order {
			passed = i
		}
	}
	r.history = slices.Delete(r.history, 0, passed)
	m := r.history[0]
	if order >= r.latest && !r.asked.IsZero() {
		r.complete, m.at = r.asked, r.asked
	}
	if m.at.Before(r.complete) {
		m.at = r.complete
	}
	return r.source.token(r.topic, order, m.mark, m.at).position()
}

// Locate implements replicator.Reader. It formats an offset as TOPIC/PARTITION:OFFSET.
func (r *Reader) Locate(order int64) string {
	return place(r.topic.Name, r.source.cfg.Partition, order)
}

// Latest implements replicator.Reader. It asks Kafka for the partition's end.
func (r *Reader) Latest(ctx context.Context) (replicator.Position, error) {
	asked := time.Now()
	end, err := r.source.cluster.end(ctx, r.topic.Name, r.source.cfg.Partition)
	if err != nil {
		return replicator.Position{}, err
	}
	r.mu.Lock()
	r.latest, r.asked = end, asked
	r.mu.Unlock()
	return r.source.token(r.topic, end, mark{}, asked).position(), nil
}

// Includes implements replicator.Reader. The fence is a position in the log of the publisher's database, or in the
// partition.
func (r *Reader) Includes(_ context.Context, p replicator.Position, fence string) (bool, error) {
	return Includes(p, fence, r.source.cfg.Covers)
}

// Scan implements replicator.Reader. There is nothing to scan, because a fill reads the log.
func (r *Reader) Scan(context.Context, string, []string, string, replicator.ScanLimit) (replicator.Chunk, error) {
	return replicator.Chunk{Done: true}, nil
}

// Estimate implements replicator.Reader. It counts all tables together, because only the records themselves say which
// table they belong to.
func (r *Reader) Estimate(context.Context, string) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.latest, 1), nil
}

// Siblings implements replicator.Reader. It returns no cells, because the publisher itself looks for them, and writes
// their rows into the topic.
func (r *Reader) Siblings(context.Context, string, []replicator.Key) ([]replicator.Cell, error) {
	return nil, nil
}

// MixesSpellings implements replicator.Reader. It is false, because the publisher itself handles collation variants of
// a key, such as "ABC" and "abc".
func (r *Reader) MixesSpellings(string) bool { return false }

// Referring implements replicator.Reader. It always fails, because the configuration refuses joins of views that are
// fed from Kafka.
func (r *Reader) Referring(context.Context, []replicator.Reference, string, int) ([]replicator.Cell, string, error) {
	return nil, "", errors.New("views that are fed from Kafka have no joins. Feed the view from the database, or " +
		"remove the join")
}

// Spellings implements replicator.Reader. It returns no cells, because the publisher itself handles collation variants
// of a key, such as "ABC" and "abc".
func (r *Reader) Spellings(_ context.Context, _ string, keys []replicator.Key) ([][]replicator.Cell, error) {
	return make([][]replicator.Cell, 0, len(keys)), nil
}

// Cells implements replicator.Reader. It always fails, because a topic is not sorted by the cells' keys.
func (r *Reader) Cells(context.Context, string, []string, string, int) ([]replicator.Cell, string, error) {
	return nil, "", replicator.Fatal(errors.New("a topic's cells can't be listed in the order of their keys; verify needs " +
		"[source] dsn"))
}
