package child

import (
	"os/exec"
	"syscall"
)

// tie makes a child die with the thread that starts it. It also keeps a terminal's Ctrl-C from the child: the parent
// ends the child in order.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
