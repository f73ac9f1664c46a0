// Package child starts processes that don't outlive this one, where the system can do that.
package child

import (
	"os/exec"
	"runtime"
)

// Child is a process that was started.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd as a process that ends with this one. The caller waits for it with the Child, not with cmd.
//
// Linux sends the death signal when the *thread* that forked ends, not the process, and Go ends threads at any time. So
// one goroutine starts the child, keeps its thread, and waits for the child.
func Start(cmd *exec.Cmd) (*Child, error) {
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go c.hold(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// hold starts the child, and waits for it in the same thread. servertest.IgnoreServers names this method.
func (c *Child) hold(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tie(c.cmd)
	if err := c.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	c.err = c.cmd.Wait()
	close(c.done)
}

// Done is closed when the child and all its threads are gone and it has been waited for.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits for the child's end and returns its result, as exec.Cmd does.
func (c *Child) Wait() error {
	<-c.done
	return c.err
}
