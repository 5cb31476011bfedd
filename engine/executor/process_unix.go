//go:build unix && !linux

package executor

import "syscall"

// ownGroup starts a program in its own process group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// groupLives reports whether a process of a group exists.
func groupLives(group int) bool { return syscall.Kill(group, 0) == nil }
