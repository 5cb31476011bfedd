//go:build !linux

package testserver

import "syscall"

// dieWithParent does nothing, because this system has no parent-death signal. Only the watchdog cleans up here.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
