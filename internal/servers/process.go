package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// process is a child that dies with this process, where the system can do that.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child and all its threads are gone and it has been waited for
	err  error         // how it ended; to be read after done

	// served is the process that serves, where cmd only launches it and ends with it; 0: cmd itself, or not known yet.
	served atomic.Int64
}

// startProcess starts cmd tied to this process.
//
// Linux sends the death signal when the *thread* that forked ends, not the process, and Go ends threads
// when it likes. So the child is started, and waited for, by a goroutine that keeps its thread for as
// long as the child lives. [process.done] tells when it has ended.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.hold(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// hold is the goroutine of startProcess; its name is what a leak checker sees of a running server.
func (p *process) hold(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tie(p.cmd)
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	close(p.done)
}

// runTied is cmd.Run for a child that must not outlive this process.
func runTied(cmd *exec.Cmd) error {
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	<-p.done
	return p.err
}

// pid is the process that serves, and that signals go to.
func (p *process) pid() int {
	if n := p.served.Load(); n != 0 {
		return int(n)
	}
	return p.cmd.Process.Pid
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends sig; that the process has ended already is no error.
func (p *process) signal(sig os.Signal) error {
	if !p.running() {
		return nil
	}
	serving, err := os.FindProcess(p.pid())
	if err == nil {
		err = serving.Signal(sig)
	}
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("servers: signal %v to process %d: %w", sig, p.pid(), err)
	}
	return nil
}

// wait returns when the process is gone, or with why ctx ended.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
