//go:build !linux

package main

// hold starts the program and waits for it.
func (p *process) hold(started chan<- error) {
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // ProcessState tells
		close(p.done)
	}
}
