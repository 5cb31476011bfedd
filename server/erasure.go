package server

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/erasing"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/erasure"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/store/subject"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// checkErasures compares the store with the ledger of erasures, before this process serves anybody. A restored backup
// may hold people and tenants who were erased since.
func (p *parts) checkErasures(ctx context.Context) error {
	if p.cfg.ErasureLedger == "" {
		return nil
	}
	ledger, err := openLedger(ctx, &p.cfg)
	if err != nil {
		return err
	}
	return errors.Join(ledger.Check(ctx, p.opened), ledger.Close())
}

// newErasureWatcher makes the watcher of open erasures of the duty `reconcile`.
func (p *parts) newErasureWatcher() *erasing.ErasureWatcher {
	return erasing.NewErasureWatcher(p.raw, p.control.Alerts, p.registry, p.now, p.log)
}

// missingForErasures returns the settings of a server without which nothing can be erased.
func missingForErasures(cfg *config.Config) (out []string) {
	if len(cfg.SubjectKeys) == 0 && cfg.SubjectKeysFile == "" {
		out = append(out, "subject-keys-file")
	}
	if cfg.ErasureLedger == "" {
		out = append(out, "erasure-ledger")
	}
	return out
}

func openLedger(ctx context.Context, cfg *config.Config) (*erasure.Ledger, error) {
	at, err := bucketURL(cfg.ErasureLedger)
	if err != nil {
		return nil, fmt.Errorf("erasure-ledger: %w", err)
	}
	keys, err := openSubjects(cfg)
	if err != nil {
		return nil, err
	}
	return erasure.OpenLedger(ctx, at, keys)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Erasing is an opened installation that can be erased from. OpenErasing makes one.
type Erasing struct {
	*erasure.Runner
	Owner *owner.DB
	Store store.Store
	close []func() error
}

// Close closes everything that OpenErasing opened.
func (e *Erasing) Close() error {
	var errs []error
	for _, f := range e.close {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// OpenErasing opens the store of the settings with the rights of its owner, the bucket, the engine and the ledger, for
// `dvt store erase` and `dvt store replay-erasures`. Without a Temporal address it starts the Temporal server of
// `dvt dev` on the data directory, and returns an error when `dvt dev` runs there. The caller closes the result.
func OpenErasing(ctx context.Context, cfg config.Config, log *slog.Logger) (out *Erasing, err error) {
	out = &Erasing{}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close())
		}
	}()
	if err := checkErasing(cfg); err != nil {
		return out, err
	}
	if err := setDefaultStore(&cfg); err != nil {
		return out, err
	}
	if len(cfg.SubjectKeys) == 0 && cfg.SubjectKeysFile == "" { // that of dvt dev
		if path := filepath.Join(cfg.Data, "subject-key"); fileExists(path) {
			cfg.SubjectKeysFile = path
		}
	}
	work := erasure.Config{Installation: cfg.PublicURL, Logger: log}
	if work.Keys, err = openSubjects(&cfg); err != nil {
		return out, err
	}
	if cfg.AuditHeadsKey != "" {
		key, err := openHeadsKey(log, cfg.AuditHeadsKey)
		if err != nil {
			return out, fmt.Errorf("audit-heads-key: %w", err)
		}
		work.Sign = key.Get()
	}
	if cfg.ErasureLedger != "" {
		if work.Ledger, err = openLedger(ctx, &cfg); err != nil {
			return out, err
		}
		out.close = append(out.close, work.Ledger.Close)
	}
	if work.Owner, err = openOwner(ctx, &cfg, log); err != nil {
		return out, err
	}
	out.Owner, out.close = work.Owner, append(out.close, work.Owner.Close)
	bucket, err := artifact.Open(ctx, cfg.Artifacts)
	if err != nil {
		return out, err
	}
	work.Archive = bucket
	work.Bucket, out.close = bucket, append(out.close, bucket.Close)
	if cfg.Temporal == "" {
		t, stop, err := devTemporal(ctx, cfg, log)
		if err != nil {
			return out, err
		}
		out.close = append(out.close, func() error { stop(); return nil })
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
	out.close = append(out.close, func() error { e.Close(); return nil })
	work.Engine = e
	if out.Store, err = openStore(ctx, cfg, log); err != nil {
		return out, err
	}
	out.close = append(out.close, out.Store.Close)
	logs := archive.Reading(out.Store, bucket)
	work.Store = logs
	work.WriteArchive = func(ctx context.Context, runID string, to owner.Renaming) (store.ArchivedRun, error) {
		return archive.WriteRenamed(ctx, logs, bucket, runID, to)
	}
	out.Runner, err = erasure.New(work)
	return out, err
}

// checkErasing refuses settings with which an erasure would look for objects and histories in the places of dvt dev. It
// would find nothing there, and certify that everything is erased.
func checkErasing(cfg config.Config) error {
	if !strings.HasPrefix(cfg.Store, "postgres") {
		return nil
	}
	var errs []error
	if cfg.HasDefaultArtifacts() {
		errs = append(errs, errors.New("artifacts is missing: name the bucket of the servers, else the logs, artifacts and "+
			"archives in it stay"))
	}
	if cfg.Temporal == "" {
		errs = append(errs, errors.New("temporal is missing: name the Temporal server of the servers, else the histories in it "+
			"stay"))
	}
	return errors.Join(errs...)
}

func openOwner(ctx context.Context, cfg *config.Config, log *slog.Logger) (*owner.DB, error) {
	if path, ok := strings.CutPrefix(cfg.Store, "sqlite:"); ok {
		db, err := sqlite.OpenOwner(ctx, path)
		if err != nil {
			return nil, err
		}
		return owner.New(db, owner.SQLite), nil
	}
	options, err := connect.Store(cfg, log)
	if err != nil {
		return nil, err
	}
	db, err := postgres.OpenOwner(ctx, cfg.Store, options.Password)
	if err != nil {
		return nil, err
	}
	return owner.New(db, owner.Postgres), nil
}

// ReadCertificate reads the certificate of an erasure and checks its signature with the public key in a PEM file.
func ReadCertificate(body []byte, publicKeyFile string) (erasure.Certificate, error) {
	key, err := readPublicKey(publicKeyFile)
	if err != nil {
		return erasure.Certificate{}, err
	}
	return erasure.ReadCertificate(body, key)
}

// readPublicKey reads an Ed25519 public key in a PEM file.
func readPublicKey(path string) (ed25519.PublicKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s contains no key in PEM: make one with `openssl pkey -pubout`", path)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s contains no Ed25519 public key: make one with `openssl pkey -pubout`", path)
	}
	return key, nil
}

// Times of the check for destroyed keys of actors.
const (
	// forgetEvery is the time within which a process stops using a key that was destroyed. Rows that it seals meanwhile
	// cannot be read.
	forgetEvery = 5 * time.Second
	// forgetOverlap covers differences of clocks and transactions that commit late.
	forgetOverlap = 5 * time.Minute
)

// openSubjects returns the keys of the settings that seal names in the audit; nil when there are none. The file is read
// once, when the process starts.
func openSubjects(cfg *config.Config) (*subject.Keyring, error) {
	list := connect.KeyList{List: config.Strings(cfg.SubjectKeys), File: cfg.SubjectKeysFile}
	if list.Empty() {
		return nil, nil
	}
	var contents [][]byte
	if list.File != "" {
		body, err := os.ReadFile(list.File)
		if err != nil {
			return nil, fmt.Errorf("subject-keys-file: %w", err)
		}
		contents = [][]byte{body}
	}
	keys, err := subject.Parse(list.Read(&contents))
	if err == nil && keys == nil {
		err = connect.ErrNoKeys
	}
	if err != nil {
		return nil, fmt.Errorf("subject-keys: %w", err)
	}
	return keys, nil
}

// forgetSubjects loads the keys of actors and drops those that are destroyed later, until the returned function is
// called.
func forgetSubjects(ctx context.Context, keys *subject.Keyring, s store.SubjectKeys, log *slog.Logger) (func(), error) {
	if err := keys.Load(ctx, s); err != nil {
		return nil, err
	}
	since := time.Now().Add(-forgetOverlap)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-running.Done():
				return
			case <-time.After(forgetEvery):
			}
			next := time.Now().Add(-forgetOverlap)
			err := keys.Forget(running, s, since)
			switch {
			case err == nil:
				since = next
			case running.Err() == nil && !errors.Is(err, store.ErrUnavailable):
				log.WarnContext(running, "destroyed keys of actors were not read, so rows of erased actors may still be "+
					"sealed by them; dvt tries again", slog.Any("error", err))
			}
		}
	}()
	return func() { stop(); <-done }, nil
}
