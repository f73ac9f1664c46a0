package kafka

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/pause"
	"replicator/sinks/judge"
)

// keeper writes and reads one view of one source.
type keeper struct {
	sink   *Sink
	source string
	view   *replicator.View
	topic  *topic

	mu        sync.Mutex
	producer  *kgo.Client
	table     *changelog.Table // the newest record of each cell, on disk
	mark      *changelog.Mark  // the view's progress, as last read or written
	marksRead int64            // next offset to read in the marks topic
	broken    error            // error after which the view must be opened again, such as a transaction of unknown outcome
	readOnly  bool             // opened by Look; another publisher may write the view

	waiting queue
}

// queue gathers requests while a transaction is pending. The next transaction writes them together.
type queue struct {
	mu       sync.Mutex
	requests []*request
}

// request is one call of apply. The call that writes its values, which may be another one, sets done and err.
type request struct {
	batch *judge.Batch
	parts []part
	done  bool
	err   error
}

func (q *queue) add(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requests = append(q.requests, r)
}

func (q *queue) take() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.requests
	q.requests = nil
	return all
}

// transactionTimeout is how long the cluster waits before it ends the transaction of a publisher that is gone. Until
// then, readers of committed records wait at that transaction.
const transactionTimeout = 30 * time.Second

// open takes the view over from any other publisher, and reads the topic's records that k.table lacks.
func (k *keeper) open(ctx context.Context) error {
	k.makeTable()
	if err := k.takeOver(ctx); err != nil {
		return err
	}
	if err := k.register(ctx); err != nil {
		return err
	}
	// restore reads up to this new mark at the end of every partition. Once the mark is readable, so are all earlier
	// records.
	if err := k.writeMark(ctx, k.mark.Standing); err != nil {
		return err
	}
	to := map[int32]int64{}
	for p, offset := range k.mark.Offsets {
		to[int32(p)] = offset + 1
	}
	return k.restore(ctx, to)
}

// openReader prepares the keeper to read the view while another publisher writes it.
func (k *keeper) openReader(ctx context.Context) error {
	k.makeTable()
	if err := k.register(ctx); err != nil {
		return err
	}
	return k.follow(ctx)
}

// follow reads what another publisher has committed to the topic since the last call. It does nothing in a keeper that
// publishes the view itself, because no one else writes it then.
func (k *keeper) follow(ctx context.Context) error {
	if !k.readOnly {
		return nil
	}
	return k.catchUp(ctx)
}

// catchUp reads the topic's committed records that k.table lacks. It waits a moment for transactions that are just
// ending, because Kafka acknowledges a commit before readers can see it.
func (k *keeper) catchUp(ctx context.Context) error {
	written, err := k.sink.ends(ctx, k.topic.name)
	if err != nil {
		return err
	}
	starts, err := k.sink.starts(ctx, k.topic.name)
	if err != nil {
		return err
	}
	for late := time.Now().Add(settling); ; {
		committed, err := k.sink.admin.ListCommittedOffsets(ctx, k.topic.name)
		if err == nil {
			err = committed.Error()
		}
		if err != nil {
			return fmt.Errorf("asking for the end of topic %s: %w", k.topic.name, err)
		}
		settled, to := true, map[int32]int64{}
		for p, o := range committed[k.topic.name] {
			settled = settled && o.Offset >= written[k.topic.name][p]
			if o.Offset > starts[p] { // otherwise the partition has no records to read
				to[p] = o.Offset
			}
		}
		if settled || time.Now().After(late) {
			return k.restore(ctx, to)
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// refresh reads the newest committed records into `k.table`, which has the newest record of each cell. It fails if the
// view must be opened again.
func (k *keeper) refresh(ctx context.Context) error {
	if err := k.usable(); err != nil {
		return err
	}
	return k.follow(ctx)
}

func (k *keeper) makeTable() {
	if k.table == nil {
		k.table = changelog.NewTable(k.sink.cfg.Dir)
	}
}

// takeOver creates the producer. Kafka then ends the previous publisher's transaction, and refuses its later writes.
// takeOver limits the time for that, because Kafka can't end the transaction while a partition has no leader, or if the
// topic's message.timestamp.before.max.ms makes a broker refuse the record that ends it.
func (k *keeper) takeOver(ctx context.Context) error {
	var err error
	id := fmt.Sprintf("replicator/%s/%s/%s", k.topic.name, k.view.Name, k.source)
	k.producer, err = kgo.NewClient(append(slices.Clone(k.sink.options), kgo.TransactionalID(id),
		kgo.TransactionTimeout(transactionTimeout), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(int32(min(k.topic.largest, 100<<20))), kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(100_000))...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, k.sink.takeover)
	defer cancel()
	_, _, err = k.producer.ProducerID(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kerr.ConcurrentTransactions) {
		err = fmt.Errorf("the cluster did not end the former publisher's transaction within %v (%w). "+
			"`kafka-transactions.sh describe --transactional-id %s` shows its partitions, and the brokers' logs say "+
			"why it is open", k.sink.takeover, err, id)
	}
	if err != nil {
		return k.explain(err)
	}
	return nil
}

// restore reads the topic's records that k.table lacks, up to the offset in `to` for each partition.
func (k *keeper) restore(ctx context.Context, to map[int32]int64) error {
	from := map[int32]int64{}
	for p := range to {
		from[p] = k.table.Next(p)
	}
	err := changelog.Read(ctx, k.sink.options, k.topic.name, from, to, func(records []*kgo.Record) error {
		return k.table.Add(k.source, records)
	})
	if errors.Is(err, changelog.ErrNotOurs) || errors.Is(err, changelog.ErrOtherOrigin) {
		return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: %w. Name a topic that no other "+
			"program writes to", k.view.Name, err)), k.view.Name)
	}
	if err != nil {
		return fmt.Errorf("view %s: %w", k.view.Name, err)
	}
	return nil
}

// close closes the producer. It keeps `k.table`, the newest record of each cell on disk, for the next keeper of the
// view.
func (k *keeper) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken == nil {
		k.broken = errors.New("this process has closed the view, or has reopened it and continues there")
	}
	if k.producer != nil {
		k.producer.Close()
	}
	return nil
}

func (k *keeper) discard() error {
	if k.table == nil {
		return nil
	}
	return k.table.Close()
}

func (k *keeper) usable() error {
	if k.broken != nil {
		return fmt.Errorf("view %s can no longer be written: %w", k.view.Name, k.broken)
	}
	return nil
}

// transact writes records in one transaction. After the brokers acknowledge them, it also writes the records that
// `last` returns. If transact returns nil, all are committed. Otherwise the view must be opened again.
func (k *keeper) transact(ctx context.Context, records []*kgo.Record, last func() []*kgo.Record) (err error) {
	if err := k.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, transactionTimeout,
		fmt.Errorf("the cluster did not finish the transaction within %v. Check that its brokers "+
			"answer", transactionTimeout))
	defer cancel()
	defer func() {
		if err != nil {
			k.broken = err
		}
	}()
	if err := k.producer.BeginTransaction(); err != nil {
		return k.explain(err)
	}
	err = k.produce(ctx, records)
	if err == nil && last != nil {
		err = k.produce(ctx, last())
	}
	if err == nil {
		err = k.producer.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil && ctx.Err() != nil { // ctx says why the transaction ended early; err does not
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	if err != nil {
		return k.explain(err)
	}
	return nil
}

// produce waits until the brokers acknowledge records. If no broker answers, only closing the producer ends the wait: a
// transactional producer does not give up a pending record when ctx is done.
func (k *keeper) produce(ctx context.Context, records []*kgo.Record) error {
	defer context.AfterFunc(ctx, k.producer.Close)()
	return k.producer.ProduceSync(ctx, records...).FirstErr()
}

// isFenced reports whether an error means that another producer has taken the transactional id. Kafka returns different
// errors, depending on the operation.
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) ||
		errors.Is(err, kerr.InvalidTxnState)
}

// explain adds to a producer's error what the error means and what to do.
func (k *keeper) explain(err error) error {
	if isFenced(err) {
		return replicator.Fatal(fmt.Errorf("view %s: topic %s: the cluster refuses this process's transaction (%w). "+
			"Either it took longer than %v, or %w. If two processes publish the view, stop one of them", k.view.Name,
			k.topic.name, err, transactionTimeout, replicator.ErrTakenOver))
	}
	if errors.Is(err, kerr.TransactionalIDAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed) ||
		errors.Is(err, kerr.ClusterAuthorizationFailed) {
		err = replicator.Fatal(fmt.Errorf("%w. docs/kafka.md lists the permissions that the user needs", err))
	}
	if errors.Is(err, kerr.InvalidTimestamp) { // a record carries the time of the write, so one of the clocks is wrong
		err = fmt.Errorf("%w: this machine's clock differs from the broker's by more than the topic's "+
			"message.timestamp.after.max.ms (an hour by default) or message.timestamp.before.max.ms. Correct the "+
			"clocks", err)
	}
	return fmt.Errorf("view %s: writing to topic %s: %w", k.view.Name, k.topic.name, err)
}

// part is one value of a batch.
type part struct {
	op, value int            // the value's indexes in the batch: Ops[op].Values[value]
	of        *replicator.Op // the value's op
	what      *replicator.Value
	key       []byte
	record    *changelog.Record
}

func (k *keeper) known(e changelog.Entry) judge.Known {
	known := judge.Known{State: e.State, Shown: e.Shown, Dead: e.Dead}
	if k.forgotten(e) {
		known.State, known.Dead = replicator.Unseen, false
	}
	return known
}

// forgotten reports whether a record was in the topic before the view was opened as a new one. Then the state in the
// record doesn't count, because it may be from another definition of the view.
func (k *keeper) forgotten(e changelog.Entry) bool {
	return int(e.Partition) < len(k.mark.Forgotten) && e.Offset < k.mark.Forgotten[e.Partition]
}

// apply decides which values apply, and writes those. A transaction takes several round trips, so one caller writes the
// values of all callers that wait. Their values concern different cells (see replicator.Target).
func (k *keeper) apply(ctx context.Context, batch *judge.Batch, parts []part) error {
	mine := &request{batch: batch, parts: parts}
	k.waiting.add(mine)
	k.mu.Lock()
	defer k.mu.Unlock()
	if mine.done {
		return mine.err
	}
	all := k.waiting.take()
	err := k.applyAll(ctx, all)
	for _, r := range all {
		r.done, r.err = true, err
	}
	return err
}

func (k *keeper) applyAll(ctx context.Context, all []*request) error {
	if err := k.usable(); err != nil {
		return err
	}
	if k.readOnly { // Look opened this keeper: take the view over before the first write
		k.readOnly = false
		if err := k.open(ctx); err != nil {
			k.broken = err
			return err
		}
	}
	var records []*kgo.Record
	for _, r := range all {
		more, err := k.judge(r.batch, r.parts)
		if err != nil {
			return err
		}
		records = append(records, more...)
	}
	if len(records) == 0 {
		return nil
	}
	return k.write(ctx, records)
}

func (k *keeper) write(ctx context.Context, records []*kgo.Record) error {
	if err := k.transact(ctx, records, nil); err != nil {
		return err
	}
	if err := k.table.Add(k.source, records); err != nil {
		k.broken = err
		return err
	}
	return nil
}

// judge decides which values apply, and returns their records.
func (k *keeper) judge(batch *judge.Batch, parts []part) (records []*kgo.Record, err error) {
	keys := make([][]byte, len(parts))
	for i := range parts {
		keys[i] = parts[i].key
	}
	var wrong error
	err = k.table.Get(keys, func(i int, e changelog.Entry, ok bool) {
		known := judge.Unseen
		if ok {
			known = k.known(e)
		}
		r, err := k.decide(batch, &parts[i], known, e)
		if wrong = errors.Join(wrong, err); r != nil {
			r.Topic, r.Partition = k.topic.name, int32(changelog.Partition(parts[i].of.Cell, k.mark.Partitions))
			records = append(records, r)
		}
	})
	return records, errors.Join(err, wrong)
}

// decide judges a value and returns the record to write, or nil if the topic needs no new record.
func (k *keeper) decide(batch *judge.Batch, p *part, known judge.Known, e changelog.Entry) (*kgo.Record, error) {
	next, applies := batch.Judge(p.op, p.value, known)
	record := p.record
	switch {
	case applies:
	case next == known.State:
		return nil, nil
	default: // the op doesn't apply, but changes the cell's state: write the old value with the new state
		held, err := k.held(p.key, e)
		if err != nil {
			return nil, err
		}
		record = held
	}
	record.State, record.Source = next, k.source
	if record.Row != nil {
		record.Row.Version, record.Row.Order = next.Version, next.Order
	}
	r := changelog.EncodeKeyed(p.key, record)
	if n := recordSize(r); n > k.topic.largest {
		why := fmt.Errorf("its record has %d bytes, but topic %s accepts only %d (max.message.bytes)", n, k.topic.name,
			k.topic.largest)
		batch.Reject(p.op, p.value, why)
		record = &changelog.Record{Cell: record.Cell, State: next, Source: k.source, Dead: why.Error()}
		r = changelog.EncodeKeyed(p.key, record)
	}
	if next == known.State && e.Shown == (record.Row != nil) && e.Dead == (record.Dead != "") &&
		string(e.Value) == string(r.Value) && !p.of.Rewrite {
		return nil, nil // the topic already has this record
	}
	return r, nil
}

func (k *keeper) held(key []byte, e changelog.Entry) (*changelog.Record, error) {
	return changelog.DecodeEntry(key, e)
}

// overhead is the maximum number of bytes that Kafka adds to a batch with a single record.
const overhead = 150

func recordSize(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value) + overhead
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

func sameStanding(a, b replicator.Standing) bool { return reflect.DeepEqual(a.Stored(), b.Stored()) }
