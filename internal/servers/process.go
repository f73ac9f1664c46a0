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

// process is a child that dies with this process, if the system supports that.
type process struct {
	*child.Child
	cmd *exec.Cmd

	// served is the id of the server's process, if cmd only launches the server. It is 0 if cmd is the server, or if the
	// id is not known yet.
	served atomic.Int64
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	c, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &process{Child: c, cmd: cmd}, nil
}

// runTied is like cmd.Run, but the child does not outlive this process.
func runTied(cmd *exec.Cmd) error {
	c, err := child.Start(cmd)
	if err != nil {
		return err
	}
	return c.Wait()
}

// pid returns the id of the server's process. That is a different process than the started one if the started one only
// launches the server.
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

// signal sends sig to the server's process. If the process has ended, it does nothing and returns nil.
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

func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
