package export

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Pack packs the finished export in a directory into one file: .tar, .tar.gz or .tar.zst. The file appears whole, with
// the manifest first. A repetition begins from nothing. Error: ErrFull.
func Pack(ctx context.Context, dir, to string) error {
	err := pack(ctx, dir, to)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %s cannot be packed: free some space and give the same command again: %w", ErrFull, dir, err)
	}
	return err
}

func pack(ctx context.Context, dir, to string) (err error) {
	f, err := os.OpenFile(to+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = f.Close(), os.Remove(f.Name())
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<20)
	var z io.WriteCloser = plainWriter{buffered}
	switch {
	case isGzip(to):
		z = gzip.NewWriter(buffered)
	case isZstd(to):
		if z, err = zstd.NewWriter(buffered); err != nil {
			return err
		}
	}
	entries := tar.NewWriter(z)
	if err := packFiles(ctx, dir, entries); err != nil {
		return err
	}
	if err := errors.Join(entries.Close(), z.Close(), buffered.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

func packFiles(ctx context.Context, dir string, to *tar.Writer) error {
	m, err := ReadManifest(dir)
	if err != nil {
		return err
	}
	if err := packFile(dir, ManifestName, *m.Until.At, to); err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(dir, ManifestName))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = readManifest(f, func(f File) error {
		if f.Problem != "" {
			return nil
		}
		return errors.Join(ctx.Err(), packFile(dir, f.Path, *m.Until.At, to))
	})
	return err
}

func packFile(dir, path string, at time.Time, to *tar.Writer) error {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := to.WriteHeader(&tar.Header{Name: path, Size: info.Size(), Mode: 0o600, ModTime: at}); err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return err
}
