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

// filesInMemory makes a folder for what tests keep while they run. Hundreds of databases are made and dropped, which
// costs most disks more than all that the tests do in them; none of them ends the machine, so nothing shows whether it
// was on a disk. It returns "" when the machine has too little memory, or somebody has chosen where by TMPDIR.
func filesInMemory() (dir string, err error) {
	if os.Getenv("TMPDIR") != "" || freeIn(sharedMemory) < freeFiles || availableMemory() < freeMemory {
		return "", nil
	}
	dir, err = os.MkdirTemp(sharedMemory, "dvt-test-")
	if err != nil {
		return "", err
	}
	// PostgreSQL runs as another user when the tests run as root.
	return dir, os.Chmod(dir, 0o755)
}

// freeIn is in bytes, 0 for what is no file system.
func freeIn(dir string) uint64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize) //nolint:gosec // a size is not negative
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
