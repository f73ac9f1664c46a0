//go:build unix

// Package cores sets how many processors the program uses at once: one while that suffices, and all of them as soon as
// it does not.
//
// If a goroutine wakes another one while a processor is idle, the runtime wakes a thread to look for work. That thread
// takes work that the busy processor would have done a moment later. A program with frequent small tasks spends a fifth
// of its CPU time on that: with 1,000 transactions a second (go run ./bench -only latency), a transaction into MySQL
// cost 230 to 236 µs on two processors, and 170 to 172 on one.
//
// The program begins with one processor. Beginning with two often made the first two seconds of live work the slowest.
package cores

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	every = 100 * time.Millisecond // how often CPU usage is checked; a backlog gets all processors within this time

	much   = 0.6 // fraction of one processor: if usage rises above it, use all processors
	little = 0.4 // fraction of one processor: if usage stays below it, use one processor
	calm   = 20  // after so many intervals with usage below the constant `little`, use one processor
)

// Pace adjusts the number of processors to the CPU usage, from now on, for the whole process. It does nothing if the
// user has set GOMAXPROCS.
func Pace() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) > 1 {
		go pace(nil, cpuTime)
	}
}

func pace(stopped <-chan struct{}, cpuTime func() time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	u := use{single: true}
	runtime.GOMAXPROCS(1)
	used, at := cpuTime(), time.Now()
	for {
		select {
		case <-tick.C:
		case <-stopped:
			return
		}
		before, then := used, at
		used, at = cpuTime(), time.Now()
		switch u.next((used - before).Seconds() / at.Sub(then).Seconds()) {
		case one:
			runtime.GOMAXPROCS(1)
		case all:
			runtime.SetDefaultGOMAXPROCS() // respects a container's limit, too
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// step says how the number of processors changes.
type step int

const (
	keep step = iota
	one
	all
)

type use struct {
	single bool // the program uses one processor now, not all
	calm   int  // for how many intervals in a row, up to now, usage was below the constant `little`
}

// next returns how the number of processors must change. busy is the CPU time used in the last interval, as a fraction
// of one processor's time.
func (u *use) next(busy float64) step {
	if busy >= little {
		u.calm = 0
	} else {
		u.calm++
	}
	switch {
	case u.single && busy > much:
		u.single = false
		return all
	case !u.single && u.calm >= calm:
		u.single = true
		return one
	}
	return keep
}
