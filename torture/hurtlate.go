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
		heldPut: {about: "a program applies a deleted version's insert last, after a reset to a lower version",
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
	last     int64  // the highest version that the row will have
	plan     Plan   // the plan of the additional programs
	dir      string
	links    [2]*link       // the second program's links to the source and to Redis
	fresh    launch.Program // the third program, which fills the view later
	programs []*launch.Process

	reads  int64 // how many connections of the main program read the binlog
	others int64 // how many of the main program's sinks other than Redis show the row
	sawW   *tap  // counts how often the main program received version w (see putLate) from the source
}

// putLate creates a history of one row with the versions w < x < v, in which the three programs' links hold requests,
// answers and binlogs. A put is a write of the row to Redis.
//
//	in the source   the main program                the second program           the third program
//	insert w        its put of w is held            its put of w is held
//	insert v        its put of v waits for w's      its put of v waits for w's
//	delete v        continues; re-reads and finds   its binlog is held
//	                w; the answer is held
//	insert x                                                                     fills: puts x
//	                its put of w is ignored
//	                                                its put of v arrives
//
// Redis keeps x when the main program's w arrives. Redis must then ignore the second program's put of v, whose log
// position is before that of the main program's re-read. No later delete would remove v, so a wrong put would be
// visible at the end.
func (w *world) putLate(ctx context.Context, f Fault) error {
	l, err := w.newLate(f)
	defer l.close()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{l.startBeside, l.holdW, l.readV, l.deleteV, l.look, l.fill,
		l.yield, l.arrive} {
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
	l = &late{w: w, t: w.plan.table(w.plan.lateView().Table), n: 1000 + int(f.Arg), last: w.load.n.Add(late0 + 1),
		plan:  w.plan,
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
	at.source = "root@tcp(" + source + ")/" + l.w.sinkName(0)
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
	for version := l.last - late0; version < l.last-2; version++ {
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

// holdW inserts version w of the row. The links (proxies) to Redis hold the write of w that the main program sends, and
// the one that the second program sends.
func (l *late) holdW(ctx context.Context) error {
	its := l.links[1].put(&tap{toServer: true, text: l.key, free: make(chan struct{})})
	own := l.w.links["cache"].put(&tap{toServer: true, text: l.key, free: make(chan struct{})})
	l.sawW = l.w.links["source"].put(&tap{text: l.body(l.last - 2)})
	if err := l.put(ctx, l.last-2); err != nil {
		return err
	}
	return errors.Join(its.passes(ctx, 1), own.passes(ctx, 1), l.sawW.passes(ctx, l.reads))
}

// readV inserts version v of the row, and waits until the main program and the second program have received it. Then it
// makes the link (proxy) hold the second program's binlog at the delete of v.
func (l *late) readV(ctx context.Context) error {
	v := l.body(l.last)
	its, own := l.links[0].put(&tap{text: v}), l.w.links["source"].put(&tap{text: v})
	if err := l.put(ctx, l.last); err != nil {
		return err
	}
	err := errors.Join(its.passes(ctx, int64(l.plan.Parts)), own.passes(ctx, l.reads))
	l.links[0].put(&tap{text: v, free: make(chan struct{})})
	return err
}

// deleteV deletes version v of the row, and waits until the main program has read the delete. It also waits until the
// main program has re-read the row for its sinks other than Redis. The highest version is then w.
func (l *late) deleteV(ctx context.Context) error {
	own := l.w.links["source"].put(&tap{text: l.body(l.last)})
	if err := l.remove(ctx); err != nil {
		return err
	}
	if err := errors.Join(own.passes(ctx, l.reads), l.sawW.passes(ctx, l.reads+l.others)); err != nil {
		return err
	}
	return pause.For(ctx, 30*time.Millisecond) // the main program needs a moment to handle the delete
}

// look releases the main program's writes to Redis. The main program then re-reads the row, and the link (proxy) holds
// the source's answer.
func (l *late) look(ctx context.Context) error {
	found := l.w.links["source"].put(&tap{text: l.body(l.last - 2), free: make(chan struct{})})
	l.w.links["cache"].letGo()
	return found.passes(ctx, 1)
}

// fill inserts version x of the row, and runs a third program. That program fills the view, and so writes x to Redis.
func (l *late) fill(ctx context.Context) error {
	if err := l.put(ctx, l.last-1); err != nil {
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

// yield releases the source's answer to the main program's re-read of the row. The program then writes version w, which
// the answer contains, to Redis. yield waits until that write has passed.
func (l *late) yield(ctx context.Context) error {
	return written(ctx, l.w.links["cache"], l.key, l.w.links["source"])
}

// arrive releases the second program's write of version v to Redis, and waits until the link (proxy) has passed the
// write. The second program's binlog stays held.
func (l *late) arrive(ctx context.Context) error {
	return written(ctx, l.links[1], l.key, l.links[1])
}

// written releases everything that the second link (held) holds. It waits until the first link (cache) has passed a
// write of the key to Redis. Then it waits a moment for Redis to handle the write, because the link doesn't show the
// result.
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
		l.w.load.home(l.t, l.n), strings.Join(l.t.Key.columns(), " = ? AND ")), append(l.t.Key.values(l.n), l.last)...)
	return err
}

// passes waits until the tap has seen its text this many times, whether it held the text or not.
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
