package sandbox

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// signalDescendants sends a signal to every living descendant of this process and returns how many received it.
func signalDescendants(signal unix.Signal) int { return signalBelow(os.Getpid(), signal) }

// signalBelow sends a signal to every living descendant of root, but not to root. It returns how many received it.
func signalBelow(root int, signal unix.Signal) int {
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// The format is "pid (name) state ppid …". The name may contain parentheses and spaces.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[0]) == "Z" {
			continue
		}
		parent, err := strconv.Atoi(string(fields[1]))
		if err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	count := 0
	for next := children[root]; len(next) > 0; {
		var below []int
		for _, pid := range next {
			if unix.Kill(pid, signal) == nil {
				count++
			}
			below = append(below, children[pid]...)
		}
		next = below
	}
	return count
}
