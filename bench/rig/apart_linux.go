package rig

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"
)

// startOn starts a process that may run on the given core only, or on all with AnyCore.
func startOn(core int, child *exec.Cmd) error {
	cores := [16]uint64{1 << max(core, 0)}
	if core == AnyCore {
		for i := range cores {
			cores[i] = ^uint64(0)
		}
	}
	runtime.LockOSThread() // a child inherits the affinity of the thread that starts it
	defer runtime.UnlockOSThread()
	var before [16]uint64
	if err := affinity(syscall.SYS_SCHED_GETAFFINITY, &before); err != nil {
		return err
	}
	if err := affinity(syscall.SYS_SCHED_SETAFFINITY, &cores); err != nil {
		return fmt.Errorf("this machine has no core %d for the server and what loads it to be apart: %w", core, err)
	}
	started := child.Start()
	if err := affinity(syscall.SYS_SCHED_SETAFFINITY, &before); err != nil {
		return err
	}
	return started
}

// affinity gets or sets the cores of the calling thread.
func affinity(call uintptr, mask *[16]uint64) error {
	_, _, errno := syscall.RawSyscall(call, 0, unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)))
	if errno != 0 {
		return errno
	}
	return nil
}
