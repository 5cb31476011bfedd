package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// fresh begins the names of files that nobody holds yet. No sweep knows such a name.
const fresh = "new-"

// FreshPattern is a pattern of os.CreateTemp and os.MkdirTemp for what Hold is given.
const FreshPattern = fresh + "*"

// Hold locks a file or a directory that this process has made, and gives it a name that begins with the number of the
// process. release ends the lock; so does the end of the process. Until then HolderLives reports that the holder lives.
func Hold(made string) (path string, release func(), err error) {
	f, err := os.Open(made)
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(filepath.Dir(made),
		fmt.Sprintf("%d.%s", os.Getpid(), strings.TrimPrefix(filepath.Base(made), fresh)))
	if err := errors.Join(lock(f), os.Rename(made, path)); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	return path, func() { _ = f.Close() }, nil
}

func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// HolderLives reports whether the process lives that holds a file or a directory of Hold. known is false for another
// name. A lock tells more than a number: every worker in a container has the number 1, also the one that was killed
// before it, and one in another container that shares the directory. Without a lock, another process of that number
// counts as the holder: earlier versions took no lock.
func HolderLives(path string) (lives, known bool) {
	var pid int
	if _, err := fmt.Sscanf(filepath.Base(path), "%d.", &pid); err != nil {
		return false, false
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true, true // its holder has just removed it
	}
	if err == nil {
		defer f.Close()
		if errors.Is(lock(f), syscall.EWOULDBLOCK) {
			return true, true
		}
	}
	return pid != os.Getpid() && syscall.Kill(pid, 0) == nil, true
}
