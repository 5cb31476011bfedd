package executor

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// ownGroup starts a program in its own process group. The kernel kills the program when its starter ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// groupLives reports whether a process of a group still runs. Zombies do not count.
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
		// The format is "pid (name) state ppid pgrp …". The name may contain parentheses and spaces.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(-group) && string(fields[0]) != "Z" {
			return true
		}
	}
	return false
}
