package testserver

import "syscall"

// dieWithParent makes the kernel signal the child when its parent ends. It protects from a watchdog that was killed
// too.
func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }
