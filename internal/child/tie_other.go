//go:build !linux

package child

import (
	"os/exec"
	"syscall"
)

// tie keeps a terminal's Ctrl-C from a child. Only Linux can also make it die with its parent.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
