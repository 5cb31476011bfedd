// Package secretfile reads secrets and certificates from files and reads them again when the files change, so that
// operators can replace them without a restart. A changed file that cannot be used is reported once, and the previous
// value stays in use.
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
	// Interval is the minimum time between two checks of the files of one Value.
	Interval = time.Second
	// settled is the age from which a modification time identifies a version. Two writes of the same size within one tick
	// of a file system's clock leave the same time, so a younger file is read at each check.
	settled = 3 * time.Second
	// MaxBytes is the maximum size of one file.
	MaxBytes = 1 << 20
)

// Value is a value parsed from files. It is safe for concurrent use. Create it with Open.
type Value[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu       sync.Mutex
	value    T
	checked  time.Time // time of the last check of the files
	versions []version
	trouble  string // the reported error; empty while the files can be used
}

// version identifies the file that a path named at one check.
type version struct {
	info os.FileInfo
	read time.Time
}

// Open reads the files. parse returns the value for their contents, in the order of paths, and must not retain them.
// The error names the file. It never contains the content, provided that the errors of parse do not. log must not be
// nil.
func Open[T any](log *slog.Logger, parse func(contents [][]byte) (T, error), paths ...string) (*Value[T], error) {
	v := &Value[T]{paths: paths, parse: parse, log: log, now: time.Now}
	if err := v.read(v.now()); err != nil {
		return nil, err
	}
	return v, nil
}

// Get returns the value. It checks the files when the last check is at least Interval ago, and reads them when one
// changed. It returns the previous value while a file cannot be used.
func (v *Value[T]) Get() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	if now.Sub(v.checked) < Interval && !now.Before(v.checked) {
		return v.value
	}
	if v.trouble == "" && !v.hasChanged() {
		v.checked = now
		return v.value
	}
	switch err := v.read(now); {
	case err == nil && v.trouble != "":
		v.trouble = ""
		v.log.Info("a changed file is in use", slog.Any("files", v.paths))
	case err != nil && err.Error() != v.trouble:
		v.trouble = err.Error()
		v.log.Error("a changed file cannot be used; its previous content stays in use", slog.Any("error", err))
	}
	return v.value
}

// hasChanged reports whether a file differs, or may differ, from the version that was read.
func (v *Value[T]) hasChanged() bool {
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
	v.checked = now
	contents, versions := make([][]byte, len(v.paths)), make([]version, len(v.paths))
	for i, path := range v.paths {
		info, err := os.Stat(path) // before the content, so that the next check finds a write in between
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

// Text reads a secret of one line, such as a token or a password. It trims white space around the secret.
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
