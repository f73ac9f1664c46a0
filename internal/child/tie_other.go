//go:build !linux

package child

import (
	"os/exec"
	"syscall"
)

// tie keeps a terminal's Ctrl-C from a child. Only Linux can make it die with its parent too.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
