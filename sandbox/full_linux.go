package sandbox

import (
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSearched bounds the search for a file that reached the limit, in files over all directories.
const maxSearched = 20_000

// clockTick is more than the time by which the times of files lag behind the clock.
const clockTick = 20 * time.Millisecond

// isDiskFull reports whether a program probably failed because it ran out of disk: SIGXFSZ ended it, a file has exactly
// the permitted size, or a temporary directory is full. Many languages ignore the signal and report a failed write
// instead. Only files that changed since the program began count.
func isDiskFull(s *spec, status syscall.WaitStatus, began time.Time) bool {
	if status.Exited() && status.ExitStatus() == 0 {
		return false
	}
	const shellsXFSZ = 128 + int(unix.SIGXFSZ)
	if status.Signaled() && status.Signal() == unix.SIGXFSZ || status.Exited() && status.ExitStatus() == shellsXFSZ {
		return true
	}
	began = began.Add(-clockTick)
	dirs := s.Write
	if s.Level.Space {
		dirs = append(dirs[:len(dirs):len(dirs)], "/tmp", "/dev/shm")
		for _, dir := range []string{"/tmp", "/dev/shm"} {
			var stat unix.Statfs_t
			if unix.Statfs(dir, &stat) == nil && stat.Bavail == 0 && stat.Type == unix.TMPFS_MAGIC {
				return true
			}
		}
	}
	searched, found := 0, false
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if searched++; found || searched > maxSearched {
				return fs.SkipAll
			}
			// The shim has the filter of the program: a read of a hidden directory would look like one of the program.
			if name != dir && slices.Contains(s.Hidden, name) {
				return fs.SkipDir
			}
			if err != nil { // the program closed a directory to its own user, or removed a file just now
				return nil //nolint:nilerr // the search goes on beside it
			}
			if e.Type().IsRegular() {
				if info, err := e.Info(); err == nil && info.Size() == s.Disk && !info.ModTime().Before(began) {
					found = true
				}
			}
			return nil
		})
	}
	return found
}
