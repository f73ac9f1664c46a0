package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// usage is the resources that a step used: wall time, and CPU time (user and system) of the client and of the servers.
type usage struct {
	wall   time.Duration
	client time.Duration
	source time.Duration
	sink   time.Duration
	peak   int64 // the client's peak memory in bytes; 0 if it was not measured
}

// measure runs f, with this process as the client, and returns the resources used.
func (l *lab) measure(f func() error) (usage, error) {
	before, err := l.read()
	if err != nil {
		return usage{}, err
	}
	if err := f(); err != nil {
		return usage{}, err
	}
	after, err := l.read()
	return usage{
		wall:   after.at.Sub(before.at),
		client: after.self - before.self,
		source: after.source - before.source,
		sink:   after.sink - before.sink,
	}, err
}

// reading has the time at one moment, and the CPU time that this process and both servers have used up to then.
type reading struct {
	at                 time.Time
	self, source, sink time.Duration
}

func (l *lab) read() (r reading, err error) {
	r.at = time.Now()
	var self syscall.Rusage
	if err = syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return r, fmt.Errorf("CPU time of this process: %w", err)
	}
	r.self = cpu(&self)
	if r.source, err = processCPU(l.source.PID()); err != nil {
		return r, err
	}
	r.sink, err = processCPU(l.sink.PID())
	return r, err
}

func cpu(u *syscall.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit of times in /proc/PID/stat: USER_HZ, which is 100 on every architecture that Go supports.
const tick = 10 * time.Millisecond

// processCPU returns the CPU time of a process with all its threads.
func processCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time of a server: %w", err)
	}
	// The process's name, in parentheses, may contain any character. The state follows the name, and the times are 11
	// and 12 fields later.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("CPU time of a server: /proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time of a server: /proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// peakMemory returns a process's peak memory in bytes. It returns 0 if the process has ended. It does not use wait4,
// whose maximum is wrong: Go starts children by vfork, and such a child inherits its parent's peak.
func peakMemory(pid int) int64 { return memory(pid, "VmHWM:") }

// residentMemory returns a process's current memory, in bytes.
func residentMemory(pid int) int64 { return memory(pid, "VmRSS:") }

func memory(pid int, field string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(status, []byte(field))
	if !ok {
		return 0
	}
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
