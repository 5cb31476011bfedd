// Package secretfile reads secrets and certificates from files and reads them again when the files change, so that
// operators replace them without a restart. A changed file that cannot be used is reported once and the value before
// stays in use.
package secretfile

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// Interval is the least time between two looks at the files of one Value.
	Interval = time.Second
	// settled is the age from which a modification time identifies a version. Two writes of the same size within one
	// tick of a file system's clock leave the same time, so a younger file is read at each look.
	settled = 3 * time.Second
	// MaxBytes is the most that one file may hold.
	MaxBytes = 1 << 20
)

// Value is what some files say. It is safe for concurrent use. Make it with Open.
type Value[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu       sync.Mutex
	value    T
	looked   time.Time
	versions []version
	trouble  string // that was reported, empty while the files can be used
}

// version tells apart what a path named at two looks.
type version struct {
	info os.FileInfo
	read time.Time
}

// Open reads the files. parse makes the value of their contents, in the order of paths, and must not keep them. The
// error names the file and never its content, if that holds for the errors of parse.
func Open[T any](log *slog.Logger, parse func(contents [][]byte) (T, error), paths ...string) (*Value[T], error) {
	v := &Value[T]{paths: paths, parse: parse, log: log, now: time.Now}
	if err := v.read(v.now()); err != nil {
		return nil, err
	}
	return v, nil
}

// Get returns the value. It looks at the files when the last look is Interval ago, and reads them when one changed.
func (v *Value[T]) Get() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	if now.Sub(v.looked) < Interval && !now.Before(v.looked) {
		return v.value
	}
	if v.trouble == "" && !v.changed() {
		v.looked = now
		return v.value
	}
	switch err := v.read(now); {
	case err == nil && v.trouble != "":
		v.trouble = ""
		v.log.Info("a changed file is in use", slog.Any("files", v.paths))
	case err != nil && err.Error() != v.trouble:
		v.trouble = err.Error()
		v.log.Error("a changed file cannot be used, what it held before stays in use", slog.Any("error", err))
	}
	return v.value
}

// changed reports whether a file is not the one that was read, or may not be.
func (v *Value[T]) changed() bool {
	for i, path := range v.paths {
		before := v.versions[i]
		now, err := os.Stat(path)
		if err != nil || !os.SameFile(before.info, now) || now.Size() != before.info.Size() ||
			!now.ModTime().Equal(before.info.ModTime()) ||
			before.read.Sub(before.info.ModTime()) < settled {
			return true
		}
	}
	return false
}

func (v *Value[T]) read(now time.Time) error {
	v.looked = now
	contents, versions := make([][]byte, len(v.paths)), make([]version, len(v.paths))
	for i, path := range v.paths {
		info, err := os.Stat(path) // before the content, so that a write in between is seen at the next look
		if err != nil {
			return unreadable(path, err)
		}
		if !info.Mode().IsRegular() || info.Size() > MaxBytes {
			return fmt.Errorf("the file %s is not a regular file of at most %d bytes", path, MaxBytes)
		}
		if contents[i], err = os.ReadFile(path); err != nil {
			return unreadable(path, err)
		}
		versions[i] = version{info: info, read: now}
	}
	value, err := v.parse(contents)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(v.paths, " and "), err)
	}
	v.value, v.versions = value, versions
	return nil
}

func unreadable(path string, err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("the file %s cannot be read: %w", path, err)
}

// Text reads a secret of one line, such as a token or a password. Space around it is not part of it.
func Text(log *slog.Logger, path string) (*Value[string], error) {
	return Open(log, func(contents [][]byte) (string, error) {
		secret := strings.TrimSpace(string(contents[0]))
		switch {
		case secret == "":
			return "", errors.New("the file is empty")
		case strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return "", errors.New("the file must hold one line and no control characters")
		}
		return secret, nil
	}, path)
}
