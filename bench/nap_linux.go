package main

import (
	"syscall"
	"time"
)

// nap waits for about d, or less where a signal comes. The runtime's own timers have an idle process woken by the
// millisecond (epoll's), which is more than what is measured.
func nap(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil) // EINTR: who naps looks at the clock
}
