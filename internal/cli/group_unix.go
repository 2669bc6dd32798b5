//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// ownGroup has a command run in a process group of its own, all of which is killed when its context ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
