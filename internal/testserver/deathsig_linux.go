package testserver

import "syscall"

// dieWithParent is the second line behind the watchdog: the child gets the signal when its parent is killed.
func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }
