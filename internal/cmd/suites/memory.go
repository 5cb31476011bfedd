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
	// Files of tests take less than 2 GiB at a time. The tests and their servers need the rest of the memory.
	freeFiles  = 4 << 30
	freeMemory = 8 << 30
)

// filesInMemory creates a directory in memory for the files of tests. Tests create and drop hundreds of databases,
// which takes most disks longer than the queries of the tests. No test stops the machine, so none can notice that its
// files are not on a disk. It returns "" when the machine has too little memory or when TMPDIR is set.
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

// freeIn returns the free bytes of the file system of dir, or 0 when there is none.
func freeIn(dir string) uint64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize) //nolint:gosec // a size is not negative
}

// availableMemory returns the available memory in bytes, or 0 when the system does not report it.
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
