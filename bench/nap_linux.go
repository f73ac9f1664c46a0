package main

import (
	"syscall"
	"time"
)

// nap waits for about d, or less if a signal arrives. The runtime's own timers wake an idle process with a resolution
// of a millisecond (epoll's), which is longer than the measured times.
func nap(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil) // the error is EINTR; the caller checks the time
}
