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

// keeper writes one view of one source.
type keeper struct {
	sink   *Sink
	source string
	view   *replicator.View
	topic  *topic

	mu        sync.Mutex
	producer  *kgo.Client
	table     *changelog.Table
	mark      *changelog.Mark // as it was written last
	marksRead int64           // up to where the topic of marks was read
	broken    error           // why nothing can be written any more: what became of a transaction is not known
	looks     bool            // another publisher may write the view: it is read on, and nothing was written yet

	waiting queue // what is to be applied by the next transaction
}

// queue gathers requests while a transaction is under way: they go together into the next.
type queue struct {
	mu       sync.Mutex
	requests []*request
}

// request is one call of apply.
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

// transactionTimeout is after how long the cluster ends the transaction of a publisher that is gone: until then readers
// of committed records wait behind it.
const transactionTimeout = 30 * time.Second

// open takes the view over, and reads what of its topic the table lacks.
func (k *keeper) open(ctx context.Context) error {
	k.makeTable()
	if err := k.takeOver(ctx); err != nil {
		return err
	}
	if err := k.register(ctx); err != nil {
		return err
	}
	// The mark that is written now stands at the end of every partition, and can be read: what lies before can, too.
	if err := k.writeMark(ctx, k.mark.Standing); err != nil {
		return err
	}
	to := map[int32]int64{}
	for p, offset := range k.mark.Offsets {
		to[int32(p)] = offset + 1
	}
	return k.restore(ctx, to)
}

// look reads the view as another publisher writes it.
func (k *keeper) look(ctx context.Context) error {
	k.makeTable()
	if err := k.register(ctx); err != nil {
		return err
	}
	return k.follow(ctx)
}

// follow reads on what another publisher has committed meanwhile.
func (k *keeper) follow(ctx context.Context) error {
	if !k.looks {
		return nil
	}
	return k.catchUp(ctx)
}

// catchUp reads what is committed. Like allMarks it waits a moment for what ends the transactions that stand there now.
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
			if o.Offset > starts[p] { // else all of it was removed, and nothing would come
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

// current makes sure that the table can be asked for what the topic has now.
func (k *keeper) current(ctx context.Context) error {
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

// takeOver makes the producer, and has the cluster end the transaction of who published the view before: from then on
// no other publisher can write. The client asks again for as long as that transaction has not ended, with no limit of
// its own: while a partition in it has no leader, say. And where a broker refused what ends it (of which the topic's
// message.timestamp.before.max.ms is asked, too) Kafka does not try again before the broker that coordinates the
// transaction is started anew.
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
		err = fmt.Errorf("the cluster does not end the transaction of who published it before, for %v (%w): "+
			"`kafka-transactions.sh describe --transactional-id %s` says which partitions are in it, the brokers' "+
			"logs why it is open", k.sink.takeover, err, id)
	}
	if err != nil {
		return k.explain(err)
	}
	return nil
}

// restore reads what the table lacks, by partition up to an offset.
func (k *keeper) restore(ctx context.Context, to map[int32]int64) error {
	from := map[int32]int64{}
	for p := range to {
		from[p] = k.table.Next(p)
	}
	err := changelog.Read(ctx, k.sink.options, k.topic.name, from, to, func(records []*kgo.Record) error {
		return k.table.Add(k.source, records)
	})
	if errors.Is(err, changelog.ErrNotOurs) || errors.Is(err, changelog.ErrOtherOrigin) {
		return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s: %w; name a topic that nothing else is "+
			"written to", k.view.Name, err)), k.view.Name)
	}
	if err != nil {
		return fmt.Errorf("view %s: %w", k.view.Name, err)
	}
	return nil
}

// close ends the producer; the table stays.
func (k *keeper) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken == nil {
		k.broken = errors.New("the view was opened anew")
	}
	if k.producer != nil {
		k.producer.Close()
	}
	return nil
}

// discard removes the table.
func (k *keeper) discard() error {
	if k.table == nil {
		return nil
	}
	return k.table.Close()
}

func (k *keeper) usable() error {
	if k.broken != nil {
		return fmt.Errorf("view %s was given up: %w", k.view.Name, k.broken)
	}
	return nil
}

// transact writes records in one transaction, and then those that last makes when the first are acknowledged. Without
// an error all are committed; else the keeper is of no use any more.
func (k *keeper) transact(ctx context.Context, records []*kgo.Record, last func() []*kgo.Record) (err error) {
	if err := k.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, transactionTimeout,
		fmt.Errorf("the cluster took no transaction for %v: do its brokers answer?", transactionTimeout))
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
	if err != nil && ctx.Err() != nil { // what the client says then is no more than that
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	if err != nil {
		return k.explain(err)
	}
	return nil
}

// produce waits until records are acknowledged. A transactional producer does not give up one that is under way,
// although ctx is done: where no broker answers, only its end ends the waiting. It is of no use any more then.
func (k *keeper) produce(ctx context.Context, records []*kgo.Record) error {
	defer context.AfterFunc(ctx, k.producer.Close)()
	return k.producer.ProduceSync(ctx, records...).FirstErr()
}

// isFenced reports whether an error says that another producer has the transactional id. Which one comes depends on
// what was under way.
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) ||
		errors.Is(err, kerr.InvalidTxnState)
}

// explain says what an error of the producer means.
func (k *keeper) explain(err error) error {
	if isFenced(err) {
		return replicator.Fatal(fmt.Errorf("view %s: topic %s: %w: end one of the two; or the cluster gave up a "+
			"transaction that took over %v (%w)", k.view.Name, k.topic.name, replicator.ErrTakenOver, transactionTimeout, err))
	}
	if errors.Is(err, kerr.TransactionalIDAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed) ||
		errors.Is(err, kerr.ClusterAuthorizationFailed) {
		err = replicator.Fatal(fmt.Errorf("%w; docs/kafka.md lists what the user must be allowed to do", err))
	}
	if errors.Is(err, kerr.InvalidTimestamp) { // a record's is the time at which it is written
		err = fmt.Errorf("%w: by the broker's clock this machine's is wrong by more than the topic's "+
			"message.timestamp.after.max.ms (an hour if nobody set it) or message.timestamp.before.max.ms: set the clocks "+
			"right", err)
	}
	return fmt.Errorf("view %s: writing to topic %s: %w", k.view.Name, k.topic.name, err)
}

// part is one value of a batch.
type part struct {
	op, value int // its place
	of        *replicator.Op
	what      *replicator.Value
	key       []byte
	record    *changelog.Record // what the value comes to
}

// known is what is known of a cell by its entry.
func (k *keeper) known(e changelog.Entry) judge.Known {
	known := judge.Known{State: e.State, Shown: e.Shown, Dead: e.Dead}
	if k.forgotten(e) {
		known.State, known.Dead = replicator.Unseen, false
	}
	return known
}

// forgotten reports whether an entry is of another definition, or of a time of which nothing is known.
func (k *keeper) forgotten(e changelog.Entry) bool {
	return int(e.Partition) < len(k.mark.Forgotten) && e.Offset < k.mark.Forgotten[e.Partition]
}

// apply judges values, and writes those that count. A transaction takes several round trips, so who comes first writes
// for all that wait: their values are of different cells (see replicator.Target).
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
	if k.looks { // from here on it publishes
		k.looks = false
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

// write writes records of cells in one transaction.
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

// judge makes the records that are to be written.
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

// decide judges a value, and makes the record that is to be written; nil if there is nothing new.
func (k *keeper) decide(batch *judge.Batch, p *part, known judge.Known, e changelog.Entry) (*kgo.Record, error) {
	next, applies := batch.Judge(p.op, p.value, known)
	record := p.record
	switch {
	case applies:
	case next == known.State:
		return nil, nil
	default: // only the state changes
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
	r := changelog.Encode(record)
	if n := recordSize(r); n > k.topic.largest {
		why := fmt.Errorf("its record has %d bytes, and topic %s takes %d (max.message.bytes)", n, k.topic.name,
			k.topic.largest)
		batch.Reject(p.op, p.value, why)
		record = &changelog.Record{Cell: record.Cell, State: next, Source: k.source, Dead: why.Error()}
		r = changelog.Encode(record)
	}
	if next == known.State && e.Shown == (record.Row != nil) && e.Dead == (record.Dead != "") &&
		string(e.Value) == string(r.Value) && !p.of.Rewrite {
		return nil, nil // it stands there: a replay
	}
	return r, nil
}

// held is what the table has of a cell.
func (k *keeper) held(key []byte, e changelog.Entry) (*changelog.Record, error) {
	return changelog.DecodeEntry(key, e)
}

// overhead is what a record costs in a batch of its own, at most.
const overhead = 150

func recordSize(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value) + overhead
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

func sameStanding(a, b replicator.Standing) bool { return reflect.DeepEqual(a.Stored(), b.Stored()) }
