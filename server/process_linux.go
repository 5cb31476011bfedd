package server

import (
	"bytes"
	"fmt"
	"os"
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
