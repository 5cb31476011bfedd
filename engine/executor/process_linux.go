package executor

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// groupLives reports whether anything of a process group still runs. Processes
// that ended and wait for a parent that never asks do not count.
func groupLives(group int) bool {
	if syscall.Kill(group, 0) != nil {
		return false
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid pgrp …; the name may hold anything
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(-group) && string(fields[0]) != "Z" {
			return true
		}
	}
	return false
}
