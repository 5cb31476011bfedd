//go:build !linux

package testserver

import "syscall"

// dieWithParent does nothing where the system knows no parent-death signal: the watchdog is the only guard there.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
