package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ListensHere reports whether this process or one of its descendants listens on a TCP port of this machine. The
// Temporal server of `dvt dev` also listens on ports other than its frontend, and they require no authentication.
func ListensHere(port uint16) bool {
	inodes := map[string]bool{}
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/self/net/" + file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line) // sl local_address rem_address st … inode
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return false
	}
	for _, pid := range descendants(os.Getpid()) {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, f := range files {
			if to, err := os.Readlink(f); err == nil && inodes[to] {
				return true
			}
		}
	}
	return false
}

// descendants returns the ids of a process and all processes that descend from it.
func descendants(root int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// pid (name) state ppid …; the name may contain spaces and parentheses
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	out := []int{root}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}
