//go:build !linux

package rig

import (
	"errors"
	"os/exec"
)

// errLinux is the error of figures that need Linux, because only there a process can be bound to a core.
var errLinux = errors.New("this figure is measured on Linux, where server and loader can have cores of their own")

func startOn(int, *exec.Cmd) error { return errLinux }
