package executor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// workspace gives the worker access to the directory of a run. Programs of steps may change it at the same time, so
// every name is resolved below the directory and no link leads out of it.
type workspace struct{ dir string }

// read returns the content of a regular file of at most most bytes; see open.
func (w workspace) read(path string, most int64) (body []byte, err error) {
	err = w.open(path, most, func(f io.Reader, _ int64) (err error) {
		body, err = io.ReadAll(io.LimitReader(f, most+1))
		if err == nil && int64(len(body)) > most {
			err = fmt.Errorf("it grew past %d bytes", most)
		}
		return err
	})
	return body, err
}

// open calls f with the content and the size of a regular file of at most most bytes, and returns an error for any
// other file. A program may leave a pipe, a device or a link of that name to block the worker, fill its memory or show
// it another file, and may change the file meanwhile.
func (w workspace) open(path string, most int64, f func(content io.Reader, size int64) error) error {
	return w.within(path, func(root *os.Root, name string) error {
		file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		switch {
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return errors.New("it is not a regular file")
		case info.Size() > most:
			return fmt.Errorf("it has %d bytes, more than %d", info.Size(), most)
		}
		return f(file, info.Size())
	})
}

// recreate creates an empty directory and replaces any file or directory of that name.
func (w workspace) recreate(path string) error {
	return w.within(path, func(root *os.Root, name string) error {
		return errors.Join(root.RemoveAll(name), root.MkdirAll(name, 0o700))
	})
}

// create writes a file that only the worker's user can read, and replaces any file or directory of that name.
func (w workspace) create(path string, body []byte) error {
	return w.within(path, func(root *os.Root, name string) error {
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := root.RemoveAll(name); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(body)
		return errors.Join(err, f.Close())
	})
}

// remove removes a file. A missing file is not an error.
func (w workspace) remove(path string) error {
	return w.within(path, func(root *os.Root, name string) error {
		if err := root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// within calls f with the directory of the workspace as a root, and the path relative to it.
func (w workspace) within(path string, f func(root *os.Root, name string) error) error {
	name, err := filepath.Rel(w.dir, path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return f(root, name)
}
