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

// late0 is how far an entity's first version is below its highest.
const late0 = 40

// lateFaults create a history of a single entity that almost never happens by chance.
func lateFaults() map[string]fault {
	return map[string]fault{
		heldPut: {about: "the insert of a deleted version is applied last, after a reset went back to a lower version",
			fits:  func(p Plan) bool { return withFile(p) && p.lateView() != nil },
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) { return nil, w.putLate(ctx, f) }},
	}
}

// lateView returns a view in Redis of a table with versioned rows; nil if there is none.
func (p Plan) lateView() *View {
	i := slices.IndexFunc(p.Views, func(v View) bool { return v.Sink == "cache" && p.table(v.Table).Shape != rows })
	if i < 0 {
		return nil
	}
	return &p.Views[i]
}

// late is an entity that no writer changes, and the additional programs, which only keep the view in Redis.
type late struct {
	w        *world
	t        Table
	n        int            // the entity
	key      []byte         // as in requests to Redis
	last     int64          // the highest version that it will have
	plan     Plan           // of the additional programs
	dir      string         // their directory
	links    [2]*link       // to the source and to Redis, for the program whose put is held
	fresh    launch.Program // fills later
	programs []*launch.Process

	reads  int64 // how many connections the main program reads the binlog on
	others int64 // in how many other sinks it keeps the entity
	sawW   *tap  // how often the main program received w
}

// putLate creates this history of one entity with the versions w < x < v. Links hold requests, answers and binlogs.
//
//	in the source   the main program                the second program         the new program
//	put w           its put of w is held            its put of w is held
//	put v           its put of v waits for w's      its put of v waits for w's
//	delete v        continues; re-reads and finds   its binlog is held
//	                w; the answer is held
//	put x                                                                      fills: puts x
//	                resets to w: yields to x
//	                                                continues: puts v
//
// The sink must ignore the last put. Its position is before that of the re-read, and no delete follows it.
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
		case err != nil: // another fault prevents it
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

// close ends the started programs, and releases everything that is held.
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

// program returns an additional program with other addresses and longer timeouts.
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

// startBeside starts the program whose put is held, and waits until it follows the source.
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
	for version := l.last - late0; version < l.last-2; version++ { // new programs skip what is before the mark
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
	return fmt.Errorf("the program beside does not follow: %s", launch.LastLines(beside.Log(), 3))
}

// holdW makes both programs wait for Redis.
func (l *late) holdW(ctx context.Context) error {
	its := l.links[1].put(&tap{toServer: true, text: l.key, free: make(chan struct{})})
	own := l.w.links["cache"].put(&tap{toServer: true, text: l.key, free: make(chan struct{})})
	l.sawW = l.w.links["source"].put(&tap{text: l.body(l.last - 2)})
	if err := l.put(ctx, l.last-2); err != nil {
		return err
	}
	return errors.Join(its.passes(ctx, 1), own.passes(ctx, 1), l.sawW.passes(ctx, l.reads))
}

// readV makes both programs read v. The second program must read nothing after it.
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

// deleteV makes the main program read that v was deleted. For its other sinks, it re-reads at once and finds w.
func (l *late) deleteV(ctx context.Context) error {
	own := l.w.links["source"].put(&tap{text: l.body(l.last)})
	if err := l.remove(ctx); err != nil {
		return err
	}
	if err := errors.Join(own.passes(ctx, l.reads), l.sawW.passes(ctx, l.reads+l.others)); err != nil {
		return err
	}
	return pause.For(ctx, 30*time.Millisecond) // the program reads it shortly after it passed the link
}

// look lets the main program re-read the entity, and holds the answer.
func (l *late) look(ctx context.Context) error {
	found := l.w.links["source"].put(&tap{text: l.body(l.last - 2), free: make(chan struct{})})
	l.w.links["cache"].letGo()
	return found.passes(ctx, 1)
}

// fill makes a new program put x.
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

// yield lets the main program write the row that its re-read found.
func (l *late) yield(ctx context.Context) error {
	return written(ctx, l.w.links["cache"], l.key, l.w.links["source"])
}

// arrive releases the put of v. Its program then ends before it reads anything else.
func (l *late) arrive(ctx context.Context) error {
	return written(ctx, l.links[1], l.key, l.links[1])
}

// written releases what a link holds, and waits until an entity was overwritten, or should not have been: a rejected
// write can't be observed.
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

// put writes a version of the entity.
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

// remove deletes the highest version.
func (l *late) remove(ctx context.Context) error {
	_, err := l.w.load.db.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s = ? AND version = ?",
		l.w.load.home(l.t, l.n), strings.Join(l.t.Key.columns(), " = ? AND ")), append(l.t.Key.values(l.n), l.last)...)
	return err
}

// passes waits until the tap's text has passed, or was held, this many times.
func (t *tap) passes(ctx context.Context, times int64) error {
	return until(ctx, fmt.Sprintf("%q passes %d times", t.text, times), func() bool { return t.seen.Load() >= times })
}

// until waits for a condition, ten seconds at most.
func until(ctx context.Context, what string, so func() bool) error {
	for end := time.Now().Add(10 * time.Second); !so(); {
		if time.Now().After(end) {
			return fmt.Errorf("not within ten seconds: %s", what)
		}
		if err := pause.For(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
