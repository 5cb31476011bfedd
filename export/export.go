// Package export writes everything of a tenant, or what the store knows of one person of a tenant, into a directory of
// JSON lines and bodies with a manifest of hashes, which anybody checks without dvt's store.
//
// An export is a sequence of parts. Files appear whole, and a saved position moves behind them, so that an export that
// was killed continues where it was and ends with the same manifest. It reads; the only thing that it writes to the
// store is the record of the audit that it began.
package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/store/subject"
)

// Actions of the audit records of exports.
const (
	ActionTenant  = "EXPORT_TENANT"
	ActionSubject = "EXPORT_SUBJECT"
)

// Store is the part of a store that an export reads through its use cases.
type Store interface {
	store.Audits
	AuditCut(ctx context.Context, tenantID string) (store.AuditCutState, error)
	Epoch(ctx context.Context) (string, error)
	PolicyHistory(ctx context.Context, tenantID string, before int64, limit int) ([]store.StoredPolicy, error)
}

// Config has what an export reads and where it writes.
type Config struct {
	Store Store
	// Run writes the export of one run, whose header names a time. It knows archived runs, too. Its errors
	// fs.ErrNotExist and archive.ErrTorn say that the archive of the run is damaged, and store.ErrNotFound says that the
	// run is gone.
	Run   func(ctx context.Context, at time.Time, runID string, w io.Writer) error
	Owner *owner.DB
	// Bucket may be nil: then no artifact and no log was ever stored.
	Bucket *artifact.Store
	// Keys open the names in the audit. nil: they stay sealed.
	Keys *subject.Keyring
	Dir  string
	// Of is the tenant, or a person of it.
	Of owner.Scope
	// By is who exports, for the record of the audit: an account of an operating system and its host. The zero value
	// stands for dvt itself.
	By     Account
	Reason string
	// FileBytes is the size after which a file of rows ends; 0: 64 MiB.
	FileBytes int64
	// Rate bounds the bytes a second that are written; 0: no bound.
	Rate     int64
	Progress func(Progress) // may be nil; called about once a second
	Logger   *slog.Logger   // nil: discards
	// Stop is called after each change of the directory, for tests that end an export there; nil: not at all.
	Stop func(at string) error
}

// Account is an account of an operating system.
type Account struct{ Name, Host string }

// accountPrefix begins the actor of the record, so that an account is no principal of the same name.
const accountPrefix = "account/"

// sign writes who acts into a row. A name beside a host is sealed as those of principals are.
func (a Account) sign(row *store.AuditRow) {
	row.Actor = "dvt"
	if a.Name != "" {
		row.Actor, row.Address, row.Credential, row.Via = accountPrefix+a.Name, a.Host, "os", "command"
	}
}

// Progress says how far an export is.
type Progress struct {
	Part         string
	Parts, Of    int // the number of the part, from 1, and that of all
	Files, Bytes int64
}

const (
	defaultFileBytes = 64 << 20
	// saveFiles and saveBytes bound what is written again after a crash, besides one file.
	saveFiles     = 64
	saveBytes     = 8 << 20
	auditPage     = store.MaxPage
	linkTries     = 100
	linkPause     = 100 * time.Millisecond
	progressEvery = time.Second
)

// Errors of Run.
var (
	// ErrOther says that the directory has another export, or something else.
	ErrOther = errors.New("EXPORT_OTHER")
	// ErrFull says that the disk has no space left.
	ErrFull = errors.New("EXPORT_DISK_FULL")
	// ErrNothing says that the store knows no such tenant.
	ErrNothing = errors.New("EXPORT_NOTHING")
)

// Run exports, or continues the export in the directory, and returns its manifest without the list of files. After an
// error Run may be called again. Errors: ErrOther, ErrFull, ErrNothing, and those of the parts that it reads.
func Run(ctx context.Context, cfg Config) (Manifest, error) {
	if cfg.FileBytes <= 0 {
		cfg.FileBytes = defaultFileBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := run(ctx, cfg)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return m, fmt.Errorf("%w: the disk of %s is full: free some space and give the same command again, which "+
			"continues: %w", ErrFull, cfg.Dir, err)
	}
	return m, err
}

func run(ctx context.Context, cfg Config) (Manifest, error) {
	if cfg.Of.TenantID == "" {
		return Manifest{}, fmt.Errorf("%w: name a tenant", ErrNothing)
	}
	w, done, err := openWork(cfg)
	if err != nil {
		return Manifest{}, err
	}
	if done != nil {
		return *done, nil
	}
	e := &exporter{Config: cfg, work: w}
	if cfg.Rate > 0 {
		w.limit = rate.NewLimiter(rate.Limit(cfg.Rate), int(min(cfg.Rate, 1<<20)))
	}
	err = e.all(ctx)
	if err == nil {
		var m Manifest
		if m, err = w.finish(ctx); err == nil {
			return m, nil
		}
	}
	err = errors.Join(err, w.close())
	if errors.Is(err, ErrNothing) { // else a mistyped tenant would keep the directory from the right one
		err = errors.Join(err, os.RemoveAll(w.path(workDir)))
		_ = os.Remove(cfg.Dir) // it stays if it has anything else
	}
	return Manifest{}, err
}

type exporter struct {
	Config
	work *work
	told time.Time
}

// part is one kind of data. write continues behind the position of the state, and commits what it wrote.
type part struct {
	name  string
	write func(context.Context) error
}

func (e *exporter) parts() []part {
	out := []part{{"audit", e.writeAudit}}
	if e.Of.Subject != "" {
		out = append(out, part{"grants", e.writeGrants})
	}
	for _, name := range e.Owner.ExportTables(e.Of) {
		out = append(out, part{"rows/" + name, func(ctx context.Context) error { return e.writeRows(ctx, name) }})
	}
	if e.Of.Subject == "" {
		out = append(out, part{"runs", e.writeRuns})
		if e.Bucket != nil {
			out = append(out, part{"logs", e.writeLogs}, part{"artifacts", e.writeArtifacts})
		}
		out = append(out, part{"removed", e.noteRemoved})
	}
	return out
}

func (e *exporter) all(ctx context.Context) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	return e.write(ctx, e.parts())
}

// write writes the parts behind the position of the state.
func (e *exporter) write(ctx context.Context, parts []part) error {
	for e.work.state.Part < len(parts) {
		no := e.work.state.Part // kept, because the last commit of a part comes when the position is behind it
		p := parts[no]
		e.tell(p.name, no+1, len(parts))
		e.work.onCommit = func() { e.tell(p.name, no+1, len(parts)) }
		if err := p.write(ctx); err != nil {
			return fmt.Errorf("export of %s: %w", p.name, err)
		}
		e.work.state.Part++
		e.work.state.Cursor, e.work.state.File = nil, 0
		if err := e.work.commit(); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) tell(part string, no, of int) {
	if e.Progress == nil || time.Since(e.told) < progressEvery {
		return
	}
	e.told = time.Now()
	s := e.work.state
	e.Progress(Progress{Part: part, Parts: no, Of: of, Files: s.Files, Bytes: s.Bytes})
}

// begin writes the record of the audit before the first byte leaves, waits until the chain has it, and keeps the end of
// the chain, up to which the export goes.
func (e *exporter) begin(ctx context.Context) error {
	s := &e.work.state
	if s.AuditNo > 0 {
		return nil
	}
	if err := e.checkExists(ctx); err != nil {
		return err
	}
	var err error
	if s.StoreEpoch, err = e.Store.Epoch(ctx); err != nil {
		return err
	}
	row := store.AuditRow{ID: s.ID, TenantID: e.Of.TenantID, Action: ActionTenant, Outcome: "ACCEPTED", Reason: e.Reason,
		RequestID: s.ID}
	e.By.sign(&row)
	if e.Of.Subject != "" {
		row.Action = ActionSubject
		if e.Keys != nil { // a name that stands here could never be erased
			id, hash := e.Keys.Hash(e.Of.TenantID, e.Of.Subject)
			row.Detail = []byte(fmt.Sprintf(`{"subjectHash":%q}`, id+":"+hash))
		}
	}
	if err := e.Store.Audit(ctx, row); err != nil {
		return err
	}
	for range linkTries {
		if _, err := e.Store.LinkAudit(ctx, store.MaxPage); err != nil {
			return err
		}
		links, err := e.Store.AuditLinks(ctx, store.AuditFilter{TenantID: e.Of.TenantID, RequestID: s.ID, Limit: 1})
		if err != nil {
			return err
		}
		if len(links) > 0 {
			s.AuditNo = links[0].No
			return e.work.commit()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(linkPause):
		}
	}
	return errors.New("the record of this export got no link in the chain of the audit within 10 s: see dvt audit verify, " +
		"and give the same command again")
}

// checkExists returns ErrNothing for a tenant without a row, so that a wrong name makes no empty export.
func (e *exporter) checkExists(ctx context.Context) error {
	tenants, err := e.Owner.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if t == e.Of.TenantID {
			return nil
		}
	}
	return fmt.Errorf("%w: the store has nothing of tenant %q: check the name", ErrNothing, e.Of.TenantID)
}
