package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

const (
	sharedMemory = "/dev/shm"
	// Tests keep less than 2 GiB at a time; what they run in needs the rest.
	freeFiles  = 4 << 30
	freeMemory = 8 << 30
)

// filesInMemory makes a folder for what tests keep while they run. Hundreds of databases are made and dropped, which costs most disks
// more than all that the tests do in them; none of them ends the machine, so nothing shows whether it was on a disk. It returns "" when
// the machine has too little memory, or somebody has chosen where by TMPDIR.
func filesInMemory() (dir string, err error) {
	var files syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(sharedMemory, &files) != nil ||
		files.Bavail*uint64(files.Bsize) < freeFiles || availableMemory() < freeMemory { //nolint:gosec,unconvert // of another type elsewhere
		return "", nil
	}
	dir, err = os.MkdirTemp(sharedMemory, "dvt-test-")
	if err != nil {
		return "", err
	}
	// PostgreSQL runs as another user when the tests run as root.
	return dir, os.Chmod(dir, 0o755)
}

// availableMemory is in bytes, 0 where the system does not say it.
func availableMemory() (bytes uint64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "MemAvailable:") {
			if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &bytes); err == nil {
				return bytes << 10
			}
		}
	}
	return 0
}
