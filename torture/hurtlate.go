package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"replicator/internal/launch"
	"replicator/internal/pause"
)

const heldPut = "held put"

// late0 is how far a row's first version is below its highest one.
const late0 = 40

// lateFaults make one row's changes arrive in an order that almost never happens by chance.
func lateFaults() map[string]fault {
	return map[string]fault{
		heldPut: {about: "a second program writes a deleted version after the main program has re-read the row",
			fits:  func(p Plan) bool { return withFile(p) && p.lateView() != nil },
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) { return nil, w.putLate(ctx, f) }},
	}
}

// lateView returns a view in Redis of a table with versioned rows. It returns nil if the plan has no such view.
func (p Plan) lateView() *View {
	i := slices.IndexFunc(p.Views, func(v View) bool { return v.Sink == "cache" && p.table(v.Table).Shape != rows })
	if i < 0 {
		return nil
	}
	return &p.Views[i]
}

// late is a row that no writer changes, and the additional programs that only maintain the row's view in Redis.
type late struct {
	w        *world
	t        Table
	n        int    // the number from which the row's key is made
	key      []byte // the row's key, as requests to Redis contain it
	plan     Plan   // the plan of the additional programs
	dir      string
	links    [2]*link       // the second program's links to the source and to Redis
	fresh    launch.Program // the third program, which fills the view later
	programs []*launch.Process

	low, mid, high int64 // the row's last three versions, in ascending order

	reads  int64 // how many connections of the main program read the binlog
	others int64 // how many of the main program's sinks show the row; Redis, which a link holds up, doesn't count
	sawLow *tap  // counts how often the source has sent version low to the main program
}

// putLate creates a history of one row with the versions low, mid and high. The links (proxies) of three programs hold
// requests, answers and binlogs back. A put is a write of the row to Redis.
//
//	in the source   the main program                    the second program                 the third program
//	insert low      its put of low is held back         its put of low is held back
//	insert high     its put of high waits for low's     its put of high waits for low's
//	delete high     its puts arrive; it re-reads the    its binlog is held back
//	                row; the answer, low, is held back
//	insert mid                                                                             fills the view: puts mid
//	                its put of low arrives
//	                                                    its puts of low and high arrive
//
// Redis must keep mid. It must ignore the last put of high, because the main program re-read the row after the insert
// of high. No later delete would remove high, so a wrong put would be visible at the end of the run.
func (w *world) putLate(ctx context.Context, f Fault) error {
	l, err := w.newLate(f)
	defer l.close()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{l.startBeside, l.holdLow, l.readHigh, l.deleteHigh, l.look,
		l.fill, l.yield, l.arrive} {
		switch err := step(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // another fault prevents this step
			w.say("%s: %v", heldPut, err)
			return errSkipped
		}
	}
	return nil
}

func (w *world) newLate(f Fault) (l *late, err error) {
	high := w.load.n.Add(late0 + 1)
	l = &late{w: w, t: w.plan.table(w.plan.lateView().Table), n: 1000 + int(f.Arg), plan: w.plan,
		low: high - 2, mid: high - 1, high: high,
		dir:   filepath.Join(w.program.Dir, fmt.Sprintf("late%d-%d", len(w.others), f.Arg)),
		reads: int64(len(w.plan.sinks()) * w.plan.Parts)}
	for _, sink := range w.plan.sinks() {
		if sink != "cache" && slices.ContainsFunc(w.plan.views(sink), func(v View) bool { return v.Table == l.t.Name }) {
			l.others++
		}
	}
	l.key = []byte(":" + l.t.Key.of(l.n))
	l.plan.Views, l.plan.Hears = w.plan.views("cache"), ""
	for i, to := range []string{w.source.Addr(), w.cache.Addr()} {
		if l.links[i], err = newLink(to); err != nil {
			return l, err
		}
	}
	l.fresh, err = l.program("fresh", w.source.Addr(), w.cache.Addr())
	return l, err
}

// close ends the additional programs, and releases everything that the links hold.
func (l *late) close() {
	for _, p := range l.programs {
		p.Kill()
	}
	l.w.links["source"].untap()
	l.w.links["cache"].untap()
	for _, k := range l.links {
		if k != nil {
			k.untap()
			k.close()
		}
	}
}

// program configures an additional program for these addresses of the source and of Redis, with longer timeouts.
func (l *late) program(name, source, cache string) (launch.Program, error) {
	p := l.w.program
	p.Dir = filepath.Join(l.dir, name)
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return p, err
	}
	at := l.w.at
	at.listen, at.cache = "", "redis://"+cache+"/0"
	at.source = "root@tcp(" + source + ")/" + l.w.databaseName(0)
	return p, p.Configure(strings.ReplaceAll(l.plan.toml(at, ""), `timeout = "3s"`, `timeout = "1m"`))
}

func (l *late) start(ctx context.Context, p launch.Program) (*launch.Process, error) {
	running, err := p.Start(context.WithoutCancel(ctx), "run", "-c", p.File())
	if err == nil {
		l.programs = append(l.programs, running)
		l.w.others = append(l.w.others, running)
	}
	return running, err
}

// startBeside starts a second program, which maintains the same views in Redis as the main program. It waits until the
// second program follows the source.
func (l *late) startBeside(ctx context.Context) error {
	p, err := l.program("beside", l.links[0].address(), l.links[1].address())
	if err != nil {
		return err
	}
	beside, err := l.start(ctx, p)
	if err != nil {
		return err
	}
	named := l.links[1].put(&tap{toServer: true, text: l.key})
	// The second program skips changes that the sink says are already written. So write versions of the row until the
	// second program sends one of them to Redis.
	for version := l.high - late0; version < l.low; version++ {
		if err := l.put(ctx, version); err != nil {
			return err
		}
		for range 25 {
			if named.seen.Load() > 0 {
				return nil
			}
			if err := pause.For(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the second program does not follow the source: %s", launch.LastLines(beside.Log(), 3))
}

// holdLow inserts version low of the row. The two programs' links to Redis hold their puts of low back.
func (l *late) holdLow(ctx context.Context) error {
	its := l.links[1].put(&tap{toServer: true, text: l.key, free: make(chan struct{})})
	own := l.w.links["cache"].put(&tap{toServer: true, text: l.key, free: make(chan struct{})})
	l.sawLow = l.w.links["source"].put(&tap{text: l.body(l.low)})
	if err := l.put(ctx, l.low); err != nil {
		return err
	}
	return errors.Join(its.passes(ctx, 1), own.passes(ctx, 1), l.sawLow.passes(ctx, l.reads))
}

// readHigh inserts version high of the row, and waits until the main program and the second program have received it.
// From then on, a tap holds the second program's binlog back at the delete of high.
func (l *late) readHigh(ctx context.Context) error {
	high := l.body(l.high)
	its, own := l.links[0].put(&tap{text: high}), l.w.links["source"].put(&tap{text: high})
	if err := l.put(ctx, l.high); err != nil {
		return err
	}
	err := errors.Join(its.passes(ctx, int64(l.plan.Parts)), own.passes(ctx, l.reads))
	l.links[0].put(&tap{text: high, free: make(chan struct{})})
	return err
}

// deleteHigh deletes version high of the row, and waits until the main program has read the delete. It also waits until
// the main program has re-read the row for its sinks other than Redis, and so has received version low again.
func (l *late) deleteHigh(ctx context.Context) error {
	own := l.w.links["source"].put(&tap{text: l.body(l.high)})
	if err := l.remove(ctx); err != nil {
		return err
	}
	if err := errors.Join(own.passes(ctx, l.reads), l.sawLow.passes(ctx, l.reads+l.others)); err != nil {
		return err
	}
	return pause.For(ctx, 30*time.Millisecond) // the main program needs a moment to handle the delete
}

// look releases the main program's puts. For Redis, too, the main program then reads the delete and re-reads the row.
// The link to the source holds the answer back.
func (l *late) look(ctx context.Context) error {
	found := l.w.links["source"].put(&tap{text: l.body(l.low), free: make(chan struct{})})
	l.w.links["cache"].letGo()
	return found.passes(ctx, 1)
}

// fill inserts version mid of the row, and runs the third program until it has filled the view, and so has put mid.
func (l *late) fill(ctx context.Context) error {
	if err := l.put(ctx, l.mid); err != nil {
		return err
	}
	reset, err := l.fresh.Start(ctx, "checkpoint", "reset", "--yes", "-c", l.fresh.File())
	if err != nil {
		return err
	}
	if reset.Code() != 0 {
		return errors.New("checkpoint reset: " + reset.Log())
	}
	p, err := l.start(ctx, l.fresh)
	if err != nil {
		return err
	}
	filled := func() bool { return strings.Count(p.Log(), `"msg":"filled"`) >= l.plan.Parts }
	if err := until(ctx, "it is filled", filled); err != nil {
		return fmt.Errorf("%w: %s", err, launch.LastLines(p.Log(), 3))
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return until(ctx, "the fresh program ends", p.Ended)
}

// yield releases the source's answer to the main program, which then puts version low. yield waits until the link to
// Redis has passed the put on.
func (l *late) yield(ctx context.Context) error {
	return written(ctx, l.w.links["cache"], l.key, l.w.links["source"])
}

// arrive releases the second program's puts, and waits until its link to Redis has passed a put on. The second
// program's binlog stays held back.
func (l *late) arrive(ctx context.Context) error {
	return written(ctx, l.links[1], l.key, l.links[1])
}

// written releases everything that the link `held` holds back. It waits until `cache`, a link to Redis, has passed on a
// write of the key. Then it waits a moment for Redis to handle the write, because the link doesn't show the result.
func written(ctx context.Context, cache *link, key []byte, held *link) error {
	named := cache.put(&tap{toServer: true, text: key})
	held.letGo()
	if err := named.passes(ctx, 1); err != nil {
		return err
	}
	return pause.For(ctx, 300*time.Millisecond)
}

// body returns a body that no other row has.
func (l *late) body(version int64) []byte {
	return l.t.encode(fmt.Sprintf(`{"n": %d, "grp": %q, "amount": 100, "email": "late@x.org"}`, version,
		groups[version%int64(len(groups))]))
}

func (l *late) put(ctx context.Context, version int64) error {
	columns, args := slices.Clone(l.t.Key.columns()), l.t.Key.values(l.n)
	if l.t.Shape == cells {
		columns, args = append(columns, "col"), append(args, "main")
	}
	columns, args = append(columns, "version", "body"), append(args, version, l.body(version))
	_, err := l.w.load.db.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", l.w.load.home(l.t, l.n),
		strings.Join(columns, ", "), strings.Repeat(", ?", len(columns)-1)), args...)
	return err
}

// remove deletes the row's highest version.
func (l *late) remove(ctx context.Context) error {
	_, err := l.w.load.db.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s = ? AND version = ?",
		l.w.load.home(l.t, l.n), strings.Join(l.t.Key.columns(), " = ? AND ")), append(l.t.Key.values(l.n), l.high)...)
	return err
}

// passes waits until the tap has seen its text this many times, including times when it held the text back.
func (t *tap) passes(ctx context.Context, times int64) error {
	return until(ctx, fmt.Sprintf("%q passes %d times", t.text, times), func() bool { return t.seen.Load() >= times })
}

// until waits for a condition to become true, ten seconds at most. what describes the condition in the error.
func until(ctx context.Context, what string, so func() bool) error {
	for end := time.Now().Add(10 * time.Second); !so(); {
		if time.Now().After(end) {
			return fmt.Errorf("ten seconds have passed without this: %s", what)
		}
		if err := pause.For(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
