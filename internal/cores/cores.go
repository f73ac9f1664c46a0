//go:build unix

// Package cores says on how many processors the program runs at once.
//
// A goroutine that wakes another one while a processor has nothing to do has a thread woken that looks for work, and
// finds what the first processor would have done itself a moment later. A program that does little, and does it often,
// pays for that with a fifth of its CPU time: 1,000 transactions a second (go run ./bench -only latency, in turns, two
// processors) took 151 to 153 µs each into Redis and 230 to 236 into MySQL on two, 118 to 125 and 170 to 172 on one. So
// where one processor is enough the program uses one, and all of them as soon as it is not. It begins with one: to use
// two until it was calm for a while often made the first two seconds of live work the slowest ones.
package cores

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	every = 100 * time.Millisecond // a backlog has one processor for that long

	much   = 0.6 // of one processor: where more is used, all are
	little = 0.4 // of one: where less is used for a while, one has to do
	calm   = 20  // how often in a row that has to be seen
)

// Pace has the program run on as many processors as package cores says, from now on. It belongs to the whole process.
// Whoever sets GOMAXPROCS has decided: then nothing is done.
func Pace() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) > 1 {
		go pace(nil, cpuTime)
	}
}

// pace follows what the process has used, as cpuTime tells it, until stopped is closed.
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
			runtime.SetDefaultGOMAXPROCS() // it follows a container's limit, too
		}
	}
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// step is what is to be done about the processors.
type step int

const (
	keep step = iota
	one
	all
)

// use is what is known of how busy the program is.
type use struct {
	single bool // one processor is used
	calm   int  // so often in a row little was used
}

// next is told how much of a processor was used lately.
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
