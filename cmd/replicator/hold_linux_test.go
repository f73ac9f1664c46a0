package main

import (
	"runtime"
	"syscall"
)

// hold starts the program and waits for it on a thread of its own: Linux ends the child with the thread that started it, so
// that no program outlives the tests, however they end.
func (p *process) hold(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // ProcessState tells
		close(p.done)
	}
}
