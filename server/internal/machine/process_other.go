//go:build !linux

package machine

import (
	"os/exec"
	"strconv"
	"strings"
)

// StartOf returns the start time of a process in the format of ps, or "" when the process does not exist.
func StartOf(pid int) string {
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// EndSteps does nothing, because this system does not show the environment of other processes.
func EndSteps(string) int { return 0 }
