package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

// member is a process with the address where its metrics are.
type member struct {
	*launch.Process
	listen  string
	applied int64 // as it said last
}

// crew is processes that do one thing together, and the servers that work for them.
type crew struct {
	members []*member
	servers map[part]*servers.Server
	begins  string // what a process logs when it begins to read
}

// part is what CPU time is told apart by.
type part string

const (
	programPart part = "program"
	sourcePart  part = "source"
	brokerPart  part = "broker"
	sinkPart    part = "sink"
	othersPart  part = "others" // everything else on this machine, the bench too
)

// crew starts processes: program says what is started, source and targets are parts of the configuration.
func (x *stream) crew(ctx context.Context, n int, program launch.Program, args []string,
	source, targets string) (c *crew, err error) {
	c = &crew{}
	defer func() {
		if err != nil {
			c.kill()
		}
	}()
	for range n {
		x.runs++
		program.Dir = filepath.Join(x.dir, fmt.Sprint(x.runs))
		listen, err := freeAddress()
		if err == nil {
			err = os.Mkdir(program.Dir, 0o755)
		}
		if err == nil {
			err = program.Configure(fmt.Sprintf(processConfiguration, source, filepath.Join(program.Dir, "state"), listen),
				targets)
		}
		if err != nil {
			return c, err
		}
		running, err := program.Start(ctx, append(args[:len(args):len(args)], program.File())...)
		if err != nil {
			return c, err
		}
		c.members = append(c.members, &member{Process: running, listen: listen})
	}
	return c, nil
}

func (c *crew) kill() {
	for _, m := range c.members {
		m.Kill()
	}
}

func (c *crew) stop() error {
	for _, m := range c.members {
		if err := m.Stop(); err != nil {
			return err
		}
	}
	return nil
}

// sample is how far a crew is, and what was used until then.
type sample struct {
	at    time.Time
	begun bool  // a process may have read something
	cells int64 // that are applied
	cpu   map[part]time.Duration
	idle  time.Duration // of all cores together
}

// sampleEvery is seldom enough for what the metrics cost to be a small part of the figures.
const sampleEvery = 100 * time.Millisecond

// watch looks at a crew until it has applied so many cells.
func (c *crew) watch(ctx context.Context, cells int64, bar *bar) (samples []sample, err error) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	moved := time.Now()
	for {
		s, err := c.sample(ctx)
		if err != nil {
			return nil, err
		}
		if n := len(samples); n > 0 && s.cells > samples[n-1].cells {
			bar.add(int(s.cells - samples[n-1].cells))
			moved = s.at
		}
		if samples = append(samples, s); s.cells >= cells {
			return samples, nil
		}
		if time.Since(moved) > stuck {
			return nil, fmt.Errorf("%d of %d cells are applied, then none for %v\n%s", s.cells, cells, stuck,
				launch.LastLines(c.members[0].Log(), 10))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *crew) sample(ctx context.Context) (s sample, err error) {
	s = sample{cpu: map[part]time.Duration{}}
	for _, m := range c.members {
		if m.Ended() {
			return s, fmt.Errorf("a process ended: %w", errors.Join(m.Wait(), errors.New(launch.LastLines(m.Log(), 10))))
		}
		if text, err := scrape(ctx, m.listen); err == nil {
			m.applied = int64(sumOf(text, "changes_applied_total", "changes_stale_total"))
		} // else it begins, or is slow to answer
		s.cells += m.applied
	}
	s.at = time.Now()
	for _, m := range c.members {
		used, err := processCPU(m.Pid())
		if err != nil {
			return s, err
		}
		s.cpu[programPart] += used
	}
	for _, m := range c.members { // after the clocks were read
		s.begun = s.begun || strings.Contains(m.Log(), c.begins)
	}
	ours := s.cpu[programPart]
	for p, server := range c.servers {
		if s.cpu[p], err = processCPU(server.PID()); err != nil {
			return s, err
		}
		ours += s.cpu[p]
	}
	busy, idle := machineCPU()
	s.cpu[othersPart], s.idle = busy-ours, idle
	return s, nil
}

// retries is how often a session failed and was tried again, and the reason that was logged last.
func (c *crew) retries(ctx context.Context) (n int, why string) {
	for _, m := range c.members {
		if tried, err := counted(ctx, m.listen, "sink_retries_total"); err == nil {
			n += int(tried)
		}
		for line := range strings.Lines(m.Log()) {
			if strings.Contains(line, `"retry_in"`) {
				why = strings.TrimSpace(line)
			}
		}
	}
	return n, why
}

// machineCPU is how long all cores together were busy, and how long they had nothing to do. What other machines on the
// same host took is neither.
func machineCPU() (busy, idle time.Duration) {
	line, _, _ := strings.Cut(procFile("stat"), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			continue // "cpu"
		}
		switch t := time.Duration(n) * tick; i {
		case 1, 2, 3, 6, 7: // user, nice, system, interrupts
			busy += t
		case 4, 5: // idle, and waiting for a disk
			idle += t
		}
	}
	return busy, idle
}

// window is what became of a crew's cells from the moment before the first one can be read until the last one was
// applied: the start of the processes is no part of it. Much is read ahead, so what is applied first says nothing of
// its cost.
type window struct {
	Cells     int64            `json:"cells"`
	Seconds   float64          `json:"seconds"`
	PerSecond float64          `json:"per_second"`
	CPU       map[part]float64 `json:"cpu_us"` // µs a cell
	Cores     float64          `json:"cores"`  // that the machine had to give
	Busy      float64          `json:"busy"`   // part of that
}

// windowOf is the window of a crew's samples.
func windowOf(samples []sample) window {
	begin, end := samples[0], samples[len(samples)-1]
	for _, s := range samples {
		if !s.begun {
			begin = s
		}
	}
	wall := end.at.Sub(begin.at)
	w := window{Cells: end.cells, Seconds: wall.Seconds(), CPU: map[part]float64{}}
	w.PerSecond = float64(w.Cells) / max(w.Seconds, 1e-3)
	busy := time.Duration(0)
	for p, used := range end.cpu {
		used -= begin.cpu[p]
		busy += used
		w.CPU[p] = max(used.Seconds(), 0) * 1e6 / float64(max(w.Cells, 1))
	}
	all := busy + end.idle - begin.idle
	w.Cores = all.Seconds() / max(w.Seconds, 1e-3)
	w.Busy = busy.Seconds() / max(all.Seconds(), 1e-3)
	return w
}
