package machine

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// MemoryPressure returns the used share of memory, from 0 to 1: the largest share among the control groups of this
// process that have a limit, or that of the machine when none has. The kernel kills processes when it reaches 1. It
// returns 0 when nothing can be read.
func MemoryPressure() float64 {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	if ratio, ok := groupPressure(cgroupRoot, string(text)); ok {
		return ratio
	}
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return machinePressure(info)
}

func groupPressure(root, membership string) (ratio float64, ok bool) {
	for line := range strings.Lines(membership) {
		group, found := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !found {
			continue
		}
		for ; group != "/" && group != "."; group = filepath.Dir(group) {
			most, limited := readNumber(filepath.Join(root, group, "memory.max"))
			used, known := readNumber(filepath.Join(root, group, "memory.current"))
			if limited && known && most > 0 {
				ratio, ok = max(ratio, used/most), true
			}
		}
	}
	return ratio, ok
}

// readNumber reads a number from a file of a control group; false for "max", which means no limit.
func readNumber(path string) (float64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return n, err == nil
}

func machinePressure(info []byte) float64 {
	values := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(info)); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		if words := strings.Fields(rest); len(words) > 0 {
			values[name], _ = strconv.ParseFloat(words[0], 64)
		}
	}
	if values["MemTotal"] == 0 {
		return 0
	}
	return 1 - values["MemAvailable"]/values["MemTotal"]
}
