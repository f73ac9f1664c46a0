package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"replicator/internal/pause"
)

// Outcome is the result of a run.
type Outcome struct {
	Wrong   []string
	Took    time.Duration
	Setup   time.Duration // how long the run took until all programs were started
	Settled time.Duration // the time from the end of the last fault until all views had the expected content
	Stuck   bool          // at the end, a view was not running or a program had ended

	Inflicted []string // the faults that were really injected
	Passes    int      // how often the reader polled every view
	Log       string   // the end of the programs' logs, if something is wrong
}

// run makes one run. Every view must have the expected content within patience after the last fault is healed.
func run(ctx context.Context, f *farm, p Plan, binary string, patience time.Duration,
	say func(string, ...any)) (o Outcome, err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "replicator-torture-")
	if err != nil {
		return o, err
	}
	defer os.RemoveAll(dir)
	w, err := newWorld(ctx, f, p, binary, dir, say)
	defer w.close()
	if err != nil {
		return o, err
	}
	if err := w.load.prepare(ctx, rand.New(rand.NewPCG(p.Seed, 2))); err != nil {
		return o, err
	}
	if w.stream != nil {
		if err := w.prepareJogchat(ctx); err != nil {
			return o, err
		}
	}
	for _, p := range w.processes() {
		if err := p.start(ctx); err != nil {
			return o, err
		}
	}
	o.Setup = time.Since(began)
	polling, endPolling := context.WithCancel(ctx)
	defer endPolling()
	var reading sync.WaitGroup
	reading.Go(func() { w.reader.run(polling) })

	err = w.hurt(ctx)
	healed := time.Now()
	if err == nil {
		o.Wrong, err = w.settle(ctx, patience)
	}
	o.Settled = time.Since(healed)
	endPolling()
	reading.Wait()
	steps, passes := w.reader.found()
	o.Wrong, o.Passes, o.Took = append(o.Wrong, steps...), passes, time.Since(began)
	o.Stuck, o.Inflicted = w.stuck, w.inflicted
	if len(o.Wrong) > 0 || err != nil {
		o.Log = w.logged(150)
	}
	return o, err
}

// hurt runs the writers while faults are injected. If the plan says so, the writers stop before the last fault.
func (w *world) hurt(ctx context.Context) error {
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var writers sync.WaitGroup
	for i := range uint64(2) {
		writers.Go(func() { w.load.run(writing, w.plan.Seed*2+i) })
	}
	if w.stream != nil {
		writers.Go(func() { w.writeJogchat(writing) })
	}
	defer writers.Wait()
	defer stop()
	last := func() {
		if w.plan.Idle {
			stop()
			writers.Wait()
		}
	}
	if err := w.inflict(ctx, w.plan.Writes/(len(w.plan.Faults)+1), last); err != nil {
		return err
	}
	if !w.plan.Idle {
		return w.wrote(ctx, w.load.wrote.Load()+20)
	}
	return nil
}

// wrote waits until n transactions have been written, ten seconds at most. The limit is for a source that is down until
// its fault is healed: no transactions are written before that.
func (w *world) wrote(ctx context.Context, n int64) error {
	for end := time.Now().Add(10 * time.Second); w.load.wrote.Load() < n && time.Now().Before(end); {
		if err := pause.For(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until every view has the content that the model computes from the source's rows. It gives up after the
// time `patience`, and returns the errors that remain.
func (w *world) settle(ctx context.Context, patience time.Duration) (wrong []string, err error) {
	for _, p := range w.processes() {
		if p.running == nil {
			return nil, errors.New("a program is not running after the last heal. A heal function must start it")
		}
	}
	if w.stream == nil {
		w.command(ctx, append([]string{"resume"}, w.names()...)...)
	}
	if steps, _ := w.reader.found(); w.overtaken && len(steps) == 0 {
		// The first program takes the views back once the source has changes that the second program missed.
		w.writeSome(ctx, Fault{})
		patience += takeBack
	}
	for end := time.Now().Add(patience); ; {
		for _, p := range w.processes() {
			// Status 1 may mean that the checkpoint store was down. So restart the program.
			if p.running.Ended() && p.running.Code() == 1 && w.restarts < 3 {
				w.restarts++
				p.end(syscall.SIGKILL)
				if err := p.start(ctx); err != nil {
					return nil, err
				}
			}
			if p.running.Ended() {
				w.stuck = true
				return []string{"a program ended unexpectedly: " + p.running.How()}, nil
			}
		}
		asked, cancel := context.WithTimeout(ctx, 20*time.Second)
		wrong, err = w.compare(asked)
		cancel()
		if err != nil {
			wrong = []string{err.Error()}
		}
		if len(wrong) == 0 {
			if wrong = w.allFailing(ctx); len(wrong) == 0 {
				return nil, nil
			}
		}
		if time.Now().After(end) {
			failing := w.allFailing(ctx)
			w.stuck = err != nil || len(failing) > 0
			return append(wrong, failing...), nil
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func (w *world) names() []string {
	var names []string
	for _, v := range w.plan.Views {
		names = append(names, v.Name)
	}
	return names
}

// processes returns the main program and, with Kafka, the consumer group members. All of them must run at the run's
// end.
func (w *world) processes() []*process {
	all := []*process{&w.process}
	if w.stream != nil {
		all = append(all, w.stream.members...)
	}
	return all
}

func (w *world) allFailing(ctx context.Context) []string {
	var all []string
	for _, p := range w.processes() {
		all = append(all, p.failing(ctx)...)
	}
	return all
}
