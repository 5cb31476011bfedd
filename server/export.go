package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dvt-engine/dvt/export"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// ExportRequest is what `dvt tenant export` and `dvt subject export` ask.
type ExportRequest struct {
	Of     owner.Scope
	To     string // a directory, or a file of export.Pack
	Reason string
	Rate   int64 // bytes a second; 0: no bound
}

// partialSuffix names the directory of an export that ends as one file.
const partialSuffix = ".partial"

// Export exports a tenant or a person from the store and the bucket of the settings. It reads them directly and
// writes one record into the tenant's audit, before anything leaves. A repeated call continues. It has the errors of
// export.Run.
func Export(ctx context.Context, cfg config.Config, log *slog.Logger, r ExportRequest,
	progress func(export.Progress)) (m export.Manifest, err error) {
	dir := filepath.Clean(r.To)
	if export.IsArchive(dir) {
		if _, err := os.Stat(dir); err == nil {
			return m, fmt.Errorf("%w: %s exists: give another file, or check it with dvt export verify", export.ErrOther, dir)
		}
		dir += partialSuffix
	}
	unlock, err := lockExport(dir)
	if err != nil {
		return m, err
	}
	defer unlock()
	work := export.Config{Dir: dir, Of: r.Of, Reason: r.Reason, Rate: r.Rate, Progress: progress, Logger: log}
	err = onExported(ctx, cfg, log, &work, func() error {
		m, err = export.Run(ctx, work)
		return err
	})
	if err != nil || dir == filepath.Clean(r.To) {
		return m, err
	}
	if err := export.Pack(ctx, dir, r.To); err != nil {
		return m, err
	}
	return m, os.RemoveAll(dir)
}

// lockExport takes the lock of an export, so that two processes do not write into one directory.
func lockExport(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // the directory around the export is not its own
		return nil, err
	}
	path := dir + ".lock"
	release, err := flock(path, syscall.LOCK_EX)
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("%w: another process exports into %s: wait for it, or end it", export.ErrOther, dir)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(path); release() }, nil
}

// onExported opens what an export reads, and closes it after f.
func onExported(ctx context.Context, cfg config.Config, log *slog.Logger, work *export.Config, f func() error) (err error) {
	if err := setDefaultStore(&cfg); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(cfg.Store, "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: there is no store at %s", store.ErrNotFound, path)
		}
	}
	if len(cfg.SubjectKeys) == 0 && cfg.SubjectKeysFile == "" { // that of dvt dev
		if path := filepath.Join(cfg.Data, "subject-key"); fileExists(path) {
			cfg.SubjectKeysFile = path
		}
	}
	if work.Keys, err = openSubjects(&cfg); err != nil {
		return err
	}
	s, err := openStore(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if work.Keys != nil {
		s = decorate.SealAudit(s, work.Keys)
	}
	if work.Owner, err = openOwner(ctx, &cfg, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Owner.Close()) }()
	work.Store = s
	if work.Bucket, err = openArchived(ctx, cfg); err != nil {
		return err
	}
	if work.Bucket != nil {
		defer func() { err = errors.Join(err, work.Bucket.Close()) }()
		work.Store = archive.Reading(s, work.Bucket)
	}
	return f()
}
