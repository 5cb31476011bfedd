package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// startOf returns when a process was started, in the kernel's own units; empty
// when there is none, or only a zombie of it.
func startOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold anything; state is the first field after it, start time the twentieth.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' {
		return ""
	}
	return string(fields[19])
}

// endSteps kills the processes of steps that a killed dvt left behind (T226). It
// knows them by the workspace that each was given: nobody but the dvt that holds
// the lock on the data works in there.
func endSteps(workspaces string) (ended int) {
	mark := []byte("\x00DVT_WORKSPACE=" + workspaces + string(filepath.Separator))
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && bytes.Contains(append([]byte{0}, env...), mark) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			ended++
		}
	}
	return ended
}
