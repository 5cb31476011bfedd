//go:build unix && !linux

package executor

import "syscall"

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// groupLives reports whether anything of a process group is left.
func groupLives(group int) bool { return syscall.Kill(group, 0) == nil }
