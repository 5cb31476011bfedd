package send

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/dvt-engine/dvt/destination"
)

// Sizes of a file that is a destination.
const (
	defaultFileMB = 100
	maxFileMB     = 100_000
	defaultKeep   = 100
	maxKeep       = 10_000
	tailBytes     = 4096 // that are read at once to find the end of the last whole line
)

// filer appends JSON lines to a file. A message is accepted when the disk has it. At a size the file gets the suffix
// .1, and older ones the next number; those beyond keep are removed.
type filer struct {
	path string
	most int64
	keep int

	turn chan struct{} // holds one token: a turn at file
	file *os.File
	size int64
}

func newFile(cfg destination.Config) (*filer, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "file" || u.Host != "" || !filepath.IsAbs(u.Path) || filepath.Clean(u.Path) != u.Path {
		return nil, errors.New("the url must be file:///PATH, with an absolute path")
	}
	f := &filer{path: u.Path, most: defaultFileMB << 20, keep: defaultKeep, turn: make(chan struct{}, 1)}
	for name, values := range u.Query() {
		n, err := strconv.Atoi(values[0])
		switch {
		case name == "maxMB" && err == nil && n >= 1 && n <= maxFileMB:
			f.most = int64(n) << 20
		case name == "keep" && err == nil && n >= 1 && n <= maxKeep:
			f.keep = n
		default:
			return nil, fmt.Errorf("the url may have maxMB, 1 to %d, and keep, 1 to %d files", maxFileMB, maxKeep)
		}
	}
	if len(cfg.Secrets) > 0 {
		return nil, errors.New("a file needs no secrets")
	}
	f.turn <- struct{}{}
	return f, nil
}

// Send implements destination.Sender.
func (f *filer) Send(ctx context.Context, m destination.Message) error {
	line, err := fileLine(m)
	if err != nil {
		return rejected("the message is not valid JSON")
	}
	select {
	case <-f.turn:
		defer func() { f.turn <- struct{}{} }()
	case <-ctx.Done():
		return transportError(ctx, ctx.Err())
	}
	if err := f.append(line); err != nil {
		f.drop()
		return explainFile(err)
	}
	return nil
}

// fileLine is the record or the event of lineage itself; other messages, such as a test, have an envelope.
func fileLine(m destination.Message) ([]byte, error) {
	doc := []byte(m.Data)
	if m.Topic != destination.Audit && m.Topic != destination.Lineage {
		var err error
		if doc, err = json.Marshal(map[string]any{"id": m.ID, "type": m.Type, "at": m.At, "data": m.Data}); err != nil {
			return nil, err
		}
	}
	var line bytes.Buffer
	if err := json.Compact(&line, doc); err != nil {
		return nil, err
	}
	line.WriteByte('\n')
	return line.Bytes(), nil
}

// explainFile returns an error for people, without the line.
func explainFile(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &explainedError{"the disk of the file is full"}
	case errors.Is(err, fs.ErrPermission):
		return &explainedError{"this process may not write the file"}
	case errors.Is(err, fs.ErrNotExist):
		return &explainedError{"the directory of the file does not exist"}
	case errors.Is(err, errOtherWriter):
		return &explainedError{"another process writes the file"}
	}
	return &explainedError{"the file cannot be written"}
}

var errOtherWriter = errors.New("locked")

// append writes a line while this process holds the lock of the file: one that lost the lease of the destination may
// still be writing.
func (f *filer) append(line []byte) error {
	lock, err := os.OpenFile(f.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errOtherWriter
	}
	if err := f.open(); err != nil {
		return err
	}
	if f.size > 0 && f.size+int64(len(line)) > f.most {
		if err := errors.Join(f.rotate(), f.open()); err != nil {
			return err
		}
	}
	n, err := f.file.Write(line)
	if err != nil || n < len(line) {
		return errors.Join(err, f.file.Truncate(f.size)) // no part of a line stays
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	f.size += int64(n)
	return nil
}

// open opens the file, unless it is open and nobody has changed it, and removes a part of a line that a killed process
// left: its message was not accepted.
func (f *filer) open() error {
	if f.file != nil {
		was, err := f.file.Stat()
		if err != nil {
			return err
		}
		is, err := os.Stat(f.path)
		if err == nil && os.SameFile(was, is) && is.Size() == f.size {
			return nil
		}
		f.drop()
	}
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o640) //nolint:gosec // collectors read it by their group
	if err != nil {
		return err
	}
	f.file = file
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if f.size, err = wholeLines(file, info.Size()); err != nil {
		return err
	}
	if f.size < info.Size() {
		err = file.Truncate(f.size)
	}
	return errors.Join(err, syncDirOf(f.path))
}

// wholeLines returns the size up to the end of the last whole line.
func wholeLines(file *os.File, size int64) (int64, error) {
	buf := make([]byte, tailBytes)
	for size > 0 {
		from := max(0, size-tailBytes)
		part := buf[:size-from]
		if _, err := file.ReadAt(part, from); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		size = from
	}
	return 0, nil
}

func syncDirOf(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// rotate gives the file the number 1, and all others the next one.
func (f *filer) rotate() error {
	err := f.file.Close()
	f.file = nil
	if err != nil {
		return err
	}
	name := func(n int) string { return f.path + "." + strconv.Itoa(n) }
	for n := f.keep; n >= 1; n-- {
		from := f.path
		if n > 1 {
			from = name(n - 1)
		}
		if err := os.Rename(from, name(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDirOf(f.path)
}

func (f *filer) drop() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

// Close closes the file.
func (f *filer) Close() error {
	<-f.turn
	f.drop()
	f.turn <- struct{}{}
	return nil
}
