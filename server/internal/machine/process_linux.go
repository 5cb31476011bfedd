package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// StartOf returns the start time of a process in the kernel's units, or "" when the process does not exist or is a
// zombie.
func StartOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may contain anything. The state is the first field after it, and the start time the
	// twentieth.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' {
		return ""
	}
	return string(fields[19])
}

// EndSteps kills the processes of steps that a killed dvt left behind, and returns their number (contract T226). It
// recognises them by DVT_WORKSPACE in their environment: only the dvt that holds the lock of the data directory starts
// programs in these workspaces.
func EndSteps(workspaces string) (ended int) {
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
