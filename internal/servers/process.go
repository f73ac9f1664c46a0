package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"

	"replicator/internal/child"
)

// process is a child that dies with this process, where the system can do that.
type process struct {
	*child.Child
	cmd *exec.Cmd

	// served is the process that serves, where cmd only launches it and ends with it; 0: cmd itself, or not known yet.
	served atomic.Int64
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	c, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &process{Child: c, cmd: cmd}, nil
}

// runTied is cmd.Run for a child that must not outlive this process.
func runTied(cmd *exec.Cmd) error {
	c, err := child.Start(cmd)
	if err != nil {
		return err
	}
	return c.Wait()
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
	case <-p.Done():
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
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
