package child

import (
	"os/exec"
	"syscall"
)

// tie makes a child die with the thread that starts it. It also keeps a terminal's Ctrl-C from the child, because the
// parent itself ends the child.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
