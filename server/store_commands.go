package server

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/export"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
	"github.com/dvt-engine/dvt/storeadmin/archive"

	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/storeadmin"
)

// The functions below implement `dvt store …` on the store of the settings, or on the store of `dvt dev` in the data
// directory when the settings name none. Each one opens the store and closes it.

// VerifyStore is `dvt store verify`. It has the contract of storeadmin.Verify. With artifacts it reads each artifact of
// the runs from the bucket of the settings: one that is missing is a difference, unless it was kept only until now.
func VerifyStore(ctx context.Context, cfg config.Config, log *slog.Logger, o storeadmin.VerifyOptions, artifacts bool,
	done func(runID string)) (out storeadmin.Verified, err error) {
	err = onStore(ctx, cfg, log, func(s store.Store) error {
		if artifacts {
			bucket, err := openArchived(ctx, cfg)
			if err != nil {
				return err
			}
			if bucket == nil {
				return fmt.Errorf("%w: there is no bucket at %s: set artifacts to the bucket of the servers, in the file of "+
					"--config or as DVT_ARTIFACTS", store.ErrNotFound, cfg.Artifacts)
			}
			defer func() { _ = bucket.Close() }()
			o.Artifact = checkArtifact(bucket, retention.NewExpiries(s, cfg.Retention, time.Now))
		}
		out, err = storeadmin.Verify(ctx, s, o, done)
		return err
	})
	return out, err
}

// checkArtifact returns a function that compares an artifact in a bucket with what its step reported.
func checkArtifact(bucket *artifact.Store, expiries *retention.Expiries) func(context.Context, *run.State,
	run.ArtifactRef) (string, error) {
	return func(ctx context.Context, s *run.State, ref run.ArtifactRef) (wrong string, err error) {
		body, err := bucket.Open(ctx, ref.URI)
		if errors.Is(err, artifact.ErrNotFound) {
			now, err := expiries.Effective(ctx, s, []run.ArtifactRef{ref})
			if err != nil || now[0].ExpiresAt != nil && now[0].ExpiresAt.Before(time.Now()) {
				return "", err
			}
			return "missing", nil
		}
		if err == nil {
			err = readChecked(body, ref)
		}
		if errors.Is(err, artifact.ErrTorn) {
			return err.Error(), nil
		}
		return "", err
	}
}

func readChecked(body io.ReadSeekCloser, ref run.ArtifactRef) error {
	defer func() { _ = body.Close() }()
	checked, err := artifact.Check(body, ref.SizeBytes, ref.SHA256)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, checked)
	return err
}

// RebuildStore is `dvt store rebuild`. It has the contract of storeadmin.Rebuild.
func RebuildStore(ctx context.Context, cfg config.Config, log *slog.Logger, runs []string,
	done func(runID string)) (out storeadmin.Rebuilt, err error) {
	err = onStore(ctx, cfg, log, func(s store.Store) error {
		out, err = storeadmin.Rebuild(ctx, s, runs, done)
		return err
	})
	return out, err
}

// BumpStoreEpoch is `dvt store epoch bump`. It returns the previous and the new epoch.
func BumpStoreEpoch(ctx context.Context, cfg config.Config, log *slog.Logger) (before, after string, err error) {
	err = onStore(ctx, cfg, log, func(s store.Store) error {
		before, after, err = storeadmin.BumpEpoch(ctx, s)
		return err
	})
	return before, after, err
}

// RepairStore is `dvt store repair --from-engine`. Without a Temporal address it starts the Temporal server of `dvt
// dev` on the data directory, and returns an error when `dvt dev` runs there.
func RepairStore(ctx context.Context, cfg config.Config, log *slog.Logger, runs []string,
	done func(runID string)) (out storeadmin.Repaired, err error) {
	return repairStore(ctx, cfg, log, runs, done, func(s store.Store) store.Store { return s })
}

func repairStore(ctx context.Context, cfg config.Config, log *slog.Logger, runs []string, done func(runID string),
	as func(store.Store) store.Store) (out storeadmin.Repaired, err error) {
	if cfg.Temporal == "" {
		t, stop, err := devTemporal(ctx, cfg, log)
		if err != nil {
			return out, err
		}
		defer stop()
		cfg.Temporal, cfg.DialTemporal = t.address(), t.dialer()
	}
	to, err := connect.Temporal(&cfg, log, false)
	if err != nil {
		return out, err
	}
	if err := connect.Ping(ctx, &cfg, to); err != nil {
		return out, err
	}
	e, err := connect.OpenEngine(&cfg, to, temporal.Config{Payloads: to.Payloads}, log)
	if err != nil {
		return out, err
	}
	defer e.Close()
	guard, err := newGuard(&cfg, true, log)
	if err != nil {
		return out, err
	}
	err = onStore(ctx, cfg, log, func(s store.Store) error {
		journal := journal.New(journal.Config{
			Store: journal.On(s), Queues: cfg.PlanQueues(), MaxSteps: plan.MaxSteps,
			Fetch: journal.NewFetcher(cfg.PlanRoots, guard).SetBuckets(cfg.PlanBuckets), Restoring: true,
		})
		out, err = storeadmin.Repair(ctx, as(s), e, journal, runs, done)
		return err
	})
	return out, err
}

// devTemporal starts the Temporal server of `dvt dev` and holds the lock of the data directory. stop ends both.
func devTemporal(ctx context.Context, cfg config.Config, log *slog.Logger) (t *temporalServer, stop func(), err error) {
	if _, err := os.Stat(filepath.Join(cfg.Data, "lock")); err != nil {
		return nil, nil, errors.New("--temporal is missing, and --data is not a data directory of `dvt dev`: give one of the two")
	}
	unlock, err := lock(filepath.Join(cfg.Data, "lock"))
	if err != nil {
		return nil, nil, err
	}
	t, err = newTemporalServer(ctx, cfg, log)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() { defer close(ended); t.run(running) }()
	stop = func() { end(); <-ended; unlock() }
	if err := t.ready(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return t, stop, nil
}

// ExportStore is `dvt store export`. The file appears under its name only when it is complete. The file - means stdout.
// A file whose name ends in .gz is compressed.
func ExportStore(ctx context.Context, cfg config.Config, log *slog.Logger, runs []string, file string, stdout io.Writer,
	done func(runID string)) (out storeadmin.Exported, err error) {
	err = onStore(ctx, cfg, log, func(s store.Store) error {
		return writeFile(file, stdout, func(w io.Writer) error {
			out, err = storeadmin.Export(ctx, s, runs, w, done)
			return err
		})
	})
	return out, err
}

func writeFile(file string, stdout io.Writer, write func(io.Writer) error) (err error) {
	if file == "-" {
		w := bufio.NewWriterSize(stdout, 1<<20)
		return errors.Join(write(w), w.Flush())
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".export-*") // readable by its owner alone
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignore(f.Close(), os.ErrClosed), os.Remove(f.Name()))
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<20)
	if strings.HasSuffix(file, ".gz") {
		z := gzip.NewWriter(buffered)
		err = errors.Join(write(z), z.Close())
	} else {
		err = write(buffered)
	}
	if err = errors.Join(err, buffered.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// ImportStore is `dvt store import`. The file - means stdin, which ImportStore copies to a temporary file, because an
// import reads its input twice.
func ImportStore(ctx context.Context, cfg config.Config, log *slog.Logger, file string, stdin io.Reader,
	skipExisting bool, done func(runID string)) (out storeadmin.Imported, err error) {
	open := func() (io.ReadCloser, error) { return os.Open(file) }
	if file == "-" {
		spool, err := os.CreateTemp("", "dvt-import-*")
		if err != nil {
			return out, err
		}
		defer func() { _ = os.Remove(spool.Name()) }()
		if _, err := io.Copy(spool, stdin); err != nil {
			return out, errors.Join(err, spool.Close())
		}
		if err := spool.Close(); err != nil {
			return out, err
		}
		open = func() (io.ReadCloser, error) { return os.Open(spool.Name()) }
	}
	if err := setDefaultStore(&cfg); err != nil {
		return out, err
	}
	s, err := openStore(ctx, cfg, log) // it creates a missing SQLite file
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return storeadmin.Import(ctx, s, open, skipExisting, done)
}

// onStore calls f with the store of the settings and closes the store. It returns store.ErrNotFound for a SQLite file
// that does not exist, instead of creating it.
func onStore(ctx context.Context, cfg config.Config, log *slog.Logger, f func(store.Store) error) (err error) {
	if err := setDefaultStore(&cfg); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(cfg.Store, "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: there is no store at %s", store.ErrNotFound, path)
		}
	}
	s, err := openStore(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	objects, err := openArchived(ctx, cfg)
	if err != nil {
		return err
	}
	if objects == nil {
		return f(s)
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	return f(archive.Reading(s, objects))
}

// openArchived opens the bucket with the archive of old runs; nil when the directory of the settings does not exist,
// because then no run was archived there.
func openArchived(ctx context.Context, cfg config.Config) (*artifact.Store, error) {
	u, err := url.Parse(cfg.Artifacts)
	if err != nil || u.Scheme == "" {
		return nil, nil //nolint:nilnil,nilerr // no bucket is not an error
	}
	if u.Scheme == "file" {
		if _, err := os.Stat(u.Path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil //nolint:nilnil // no bucket is not an error
		}
	}
	return artifact.Open(ctx, cfg.Artifacts)
}

// setDefaultStore sets the store of `dvt dev` when the settings name none. It returns an error when that store does not
// exist.
func setDefaultStore(c *config.Config) error {
	if c.Store != "" {
		return nil
	}
	path := filepath.Join(c.Data, "dvt.db")
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("--store is missing, and there is no store of `dvt dev` at %s: give --store, or the directory of "+
			"`dvt dev` with --data", path)
	}
	c.Store = "sqlite:" + path
	return nil
}

// ExportRequest is what `dvt tenant export` and `dvt subject export` ask.
type ExportRequest struct {
	Of     owner.Scope
	To     string // a directory, or a file of export.Pack
	By     export.Account
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
	work := export.Config{Dir: dir, Of: r.Of, By: r.By, Reason: r.Reason, Rate: r.Rate, Progress: progress, Logger: log}
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
func onExported(ctx context.Context, cfg config.Config, log *slog.Logger, work *export.Config,
	f func() error) (err error) {
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
	if work.Bucket, err = openArchived(ctx, cfg); err != nil {
		return err
	}
	work.Store = s
	if work.Bucket != nil {
		defer func() { err = errors.Join(err, work.Bucket.Close()) }()
		s = archive.Reading(s, work.Bucket)
	}
	work.Run = func(ctx context.Context, at time.Time, runID string, w io.Writer) error {
		_, err := storeadmin.ExportAt(ctx, s, at, []string{runID}, w, nil)
		return err
	}
	return f()
}

// Exit statuses of `dvt store …`.
const (
	statusFailed   = 1
	statusUsage    = 2
	statusRefused  = 3
	statusNotFound = 4
)

// StoreStatus returns the exit status of a store command for its error: 0 for nil.
func StoreStatus(err error) int {
	var invalid *storeadmin.InvalidError
	var exist *storeadmin.ExistError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &invalid):
		return statusUsage
	case errors.As(err, &exist):
		return statusRefused
	case errors.Is(err, store.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return statusNotFound
	}
	return statusFailed
}
