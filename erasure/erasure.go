// Package erasure erases a tenant, or one person of a tenant, from everything that dvt keeps: the store, the bucket of
// artifacts and logs, and the engine. It works with the rights of the store's owner, beside running servers.
//
// An erasure is a sequence of phases. Each phase may be repeated without harm, and the progress is saved with every
// batch, so an erasure that was killed continues where it was. Before anything is erased, its entry is written into the
// ledger outside the store. A backup that is restored later finds it there, see Replay.
package erasure

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/store/subject"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// Phases of an erasure, in their order. A person has only some of them.
const (
	PhaseLedger  = "LEDGER"  // the ledger outside the store gets the entry
	PhaseFreeze  = "FREEZE"  // servers refuse new runs of the tenant
	PhaseEnd     = "END"     // the engine ends the open runs of the tenant
	PhaseDrain   = "DRAIN"   // viewers get the last messages
	PhaseRows    = "ROWS"    // rows of the store are deleted
	PhaseKeys    = "KEYS"    // the keys of a person are destroyed
	PhaseNames   = "NAMES"   // a person is replaced in rows about single acts, with what the person wrote there
	PhaseTexts   = "TEXTS"   // a person is replaced in all rows that belong to no log, and loses every right
	PhaseLogs    = "LOGS"    // a person is replaced in the logs of ended runs, and in their archives
	PhaseOpen    = "OPEN"    // the erasure waits for open runs that name the person
	PhaseBucket  = "BUCKET"  // artifacts and logs are deleted
	PhaseEngine  = "ENGINE"  // the engine forgets the histories of the tenant
	PhaseAgain   = "AGAIN"   // late writes are erased, until a pass finds nothing
	PhaseCompact = "COMPACT" // the files of the database lose what deleted rows left in them
	PhaseCertify = "CERTIFY" // the certificate is signed, and the request becomes a tombstone
)

func phasesOf(k store.ErasureKind) []string {
	if k == store.EraseSubject {
		return []string{PhaseLedger, PhaseKeys, PhaseRows, PhaseNames, PhaseTexts, PhaseLogs, PhaseOpen,
			PhaseAgain, PhaseCompact, PhaseCertify}
	}
	return []string{PhaseLedger, PhaseFreeze, PhaseEnd, PhaseDrain, PhaseRows, PhaseBucket, PhaseEngine, PhaseAgain,
		PhaseCompact, PhaseCertify}
}

// Forgetter is the part of an engine that erases. Its methods may be repeated.
type Forgetter interface {
	Terminate(ctx context.Context, id run.Identity, reason string) error
	// CountTenant counts the executions of a tenant, open and closed.
	CountTenant(ctx context.Context, tenantID string) (int64, error)
	// ForgetTenant ends and deletes at most limit executions of a tenant. more says that others may be left.
	ForgetTenant(ctx context.Context, tenantID string, limit int) (forgotten int64, more bool, err error)
	// ForgetRun deletes the executions of an ended run with their histories.
	ForgetRun(ctx context.Context, id run.Identity) error
}

// Logs reads the logs of runs, also archived ones, and links audit rows.
type Logs interface {
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	FindArchived(ctx context.Context, runIDs ...string) ([]store.ArchivedRun, error)
	LinkAudit(ctx context.Context, limit int) (int, error)
	subject.Links
}

// Config has what an erasure works on.
type Config struct {
	Owner  *owner.DB
	Bucket artifact.Remover
	// Store reads the logs of runs, also archived ones, and links audit rows.
	Store Logs
	// Archive has the archived logs of runs. WriteArchive writes the one of a run without the name of a person.
	Archive      archive.Copies
	WriteArchive func(ctx context.Context, runID string, to owner.Renaming) (store.ArchivedRun, error)
	Engine       Forgetter
	Ledger       *Ledger
	Keys         *subject.Keyring
	// Sign signs certificates.
	Sign         ed25519.PrivateKey
	Installation string
	Now          func() time.Time // nil: time.Now
	Logger       *slog.Logger     // nil: discards
	// Batch is the number of rows, objects and executions of one step; 0: 1,000.
	Batch int
	// DrainFor is how long the last messages of open runs may take; 0: 30 s.
	DrainFor time.Duration
	// Stop is called after each saved step, for tests that end an erasure there; nil: not at all.
	Stop func(phase, position string) error
}

const (
	defaultBatch = 1000
	defaultDrain = 30 * time.Second
	drainPoll    = 200 * time.Millisecond
	// quietPasses is the number of passes in a row that must find nothing, because workers may still write meanwhile and
	// the engine's index is late.
	quietPasses = 2
	// mostPasses bounds the passes. Somebody who still writes for the tenant, such as a token of the settings file, would
	// keep an erasure from finishing.
	mostPasses = 20
	passPause  = time.Second
	// The engine may take this many pauses to delete; it is asked again every forgetEvery of them.
	mostForgets = 300
	forgetEvery = 30
)

// reason is the reason of terminated runs and of the freeze.
const reason = "The tenant is being erased."

// Runner carries out erasures. Make one with New.
type Runner struct{ cfg Config }

// New returns a Runner. Errors: settings that an erasure needs and that are missing.
func New(cfg Config) (*Runner, error) {
	var errs []error
	if cfg.Ledger == nil {
		errs = append(errs, errors.New("erasure-ledger is missing: without a ledger outside the store, a restored backup "+
			"would bring back what was erased; name a bucket URL or a directory that is not part of the store's backup"))
	}
	if cfg.Keys == nil {
		errs = append(errs, errors.New("subject-keys-file is missing: the ledger and the certificate name what was erased "+
			"only by a hash with that key"))
	}
	if cfg.Sign == nil {
		errs = append(errs, errors.New("audit-heads-key is missing: it signs the certificate"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Batch <= 0 {
		cfg.Batch = defaultBatch
	}
	if cfg.DrainFor <= 0 {
		cfg.DrainFor = defaultDrain
	}
	return &Runner{cfg}, nil
}

// ErrNotConfirmed says that an erasure cannot start: nobody confirmed it, the same person requested and confirmed it,
// or it was cancelled.
var ErrNotConfirmed = errors.New("erasure: a second person must confirm the erasure first")

// ErrHeld says that an erasure cannot start, because a legal hold orders to keep what it would erase.
var ErrHeld = errors.New("erasure: a legal hold is open")

// Run carries out a confirmed erasure, or continues it, and returns its certificate. A finished erasure gives its
// certificate again. Errors: store.ErrNotFound, ErrNotConfirmed, ErrHeld, and those of the parts that it works on.
// After an error Run may be called again. A hold that is placed after the start stops nothing: a part is gone by then.
func (r *Runner) Run(ctx context.Context, id string) (json.RawMessage, error) {
	e, err := r.cfg.Owner.Erasure(ctx, id)
	if err != nil {
		return nil, err
	}
	if e.FinishedAt != nil {
		return e.Certificate, nil
	}
	if err := r.cfg.Owner.CheckRights(ctx); err != nil {
		return nil, err
	}
	if e.ConfirmedAt == nil || e.CancelledAt != nil || e.ConfirmedBy == e.RequestedBy {
		return nil, ErrNotConfirmed
	}
	if e.StartedAt == nil {
		n, err := r.cfg.Owner.OpenHolds(ctx, owner.Scope{TenantID: e.TenantID, Subject: e.Subject})
		if err != nil {
			return nil, err
		}
		if n > 0 {
			return nil, fmt.Errorf("%w: %d holds of the tenant forbid this; see dvt hold list, and lift them or cancel the "+
				"erasure", ErrHeld, n)
		}
	}
	// The entry is written before the store says that the erasure has started: a backup from between the two knows the
	// request only, and its ledger has the entry.
	if err := r.cfg.Ledger.write(ctx, r.entryOf(e, false)); err != nil {
		return nil, err
	}
	if err := r.cfg.Owner.Start(ctx, id); errors.Is(err, store.ErrConflict) {
		return nil, ErrNotConfirmed
	} else if err != nil {
		return nil, err
	}
	if e.Counts == nil {
		e.Counts = map[string]int64{}
	}
	return r.finish(ctx, e)
}

// finish goes through the phases from that of e on.
func (r *Runner) finish(ctx context.Context, e store.Erasure) (json.RawMessage, error) {
	phases := phasesOf(e.Kind)
	for i := max(slices.Index(phases, e.Phase), 0); i < len(phases); i++ {
		if e.Phase != phases[i] {
			e.Phase, e.Position = phases[i], ""
			if err := r.save(ctx, &e); err != nil {
				return nil, err
			}
		}
		r.cfg.Logger.InfoContext(ctx, "erasing", slog.String("erasure", e.ID), slog.String("phase", e.Phase))
		if err := r.phase(ctx, &e); err != nil {
			return nil, fmt.Errorf("erasure %s stopped in the phase %s, and continues there when it is run again: %w", e.ID,
				e.Phase, err)
		}
	}
	return e.Certificate, nil
}

func (r *Runner) save(ctx context.Context, e *store.Erasure) error {
	if err := r.cfg.Owner.Save(ctx, *e); err != nil {
		return err
	}
	return r.saved(e)
}

func (r *Runner) saved(e *store.Erasure) error {
	if r.cfg.Stop == nil {
		return nil
	}
	return r.cfg.Stop(e.Phase, e.Position)
}

func (r *Runner) phase(ctx context.Context, e *store.Erasure) error {
	switch e.Phase {
	case PhaseLedger: // written before the start
		return nil
	case PhaseFreeze:
		return r.cfg.Owner.Freeze(ctx, e.TenantID, reason)
	case PhaseEnd:
		return r.endRuns(ctx, e)
	case PhaseDrain:
		return r.drain(ctx, e)
	case PhaseRows:
		_, err := r.deleteRows(ctx, e)
		return err
	case PhaseKeys:
		n, err := r.cfg.Owner.DestroyKeys(ctx, r.cfg.Keys.Lookups(e.TenantID, e.Subject))
		add(e, "keys", n)
		return err
	case PhaseNames:
		return r.replaceNames(ctx, e)
	case PhaseTexts:
		_, err := r.rewriteTexts(ctx, e)
		return err
	case PhaseLogs:
		_, _, err := r.rewriteLogs(ctx, e)
		return err
	case PhaseOpen:
		return r.waitForRuns(ctx, e)
	case PhaseBucket:
		_, err := r.deleteObjects(ctx, e)
		return err
	case PhaseEngine:
		_, err := r.forgetExecutions(ctx, e)
		return err
	case PhaseAgain:
		if e.Kind == store.EraseSubject {
			return r.rewriteAgain(ctx, e)
		}
		return r.again(ctx, e)
	case PhaseCompact:
		return r.cfg.Owner.Compact(ctx, owner.Scope{TenantID: e.TenantID}) // also the keys of a person
	case PhaseCertify:
		return r.certify(ctx, e)
	}
	return fmt.Errorf("erasure: unknown phase %q", e.Phase)
}

// add counts n things that were erased at a place.
func add(e *store.Erasure, place string, n int64) {
	if n > 0 {
		e.Counts[place] += n
	}
}

// endRuns terminates the executions of open runs, so that no step begins any more.
func (r *Runner) endRuns(ctx context.Context, e *store.Erasure) error {
	for {
		ids, err := r.cfg.Owner.OpenRuns(ctx, e.TenantID, e.Position, r.cfg.Batch)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			err := r.cfg.Engine.Terminate(ctx, id, reason)
			if err != nil && !errors.Is(err, engine.ErrNotStarted) && !errors.Is(err, engine.ErrClosed) {
				return err
			}
			if e.Position = id.RunID; err == nil {
				add(e, "open runs ended", 1)
			}
		}
		if err := r.save(ctx, e); err != nil {
			return err
		}
	}
}

// drain waits until viewers have the last messages, at most for DrainFor.
func (r *Runner) drain(ctx context.Context, e *store.Erasure) error {
	for end := r.cfg.Now().Add(r.cfg.DrainFor); r.cfg.Now().Before(end); {
		n, err := r.cfg.Owner.Undelivered(ctx, e.TenantID)
		if err != nil || n == 0 {
			return err
		}
		if err := pause(ctx, drainPoll); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// deleteRows empties the tables from e.Position on, and returns how many rows it deleted.
func (r *Runner) deleteRows(ctx context.Context, e *store.Erasure) (total int64, err error) {
	scope := owner.Scope{TenantID: e.TenantID, Subject: e.Subject}
	if err := r.keepHead(ctx, e); err != nil {
		return 0, err
	}
	tables := r.cfg.Owner.Tables(scope)
	for _, name := range tables[max(slices.Index(tables, e.Position), 0):] {
		e.Position = name
		for {
			n, err := r.cfg.Owner.DeleteRows(ctx, e, scope, name, r.cfg.Batch)
			total += n
			if err == nil {
				err = r.saved(e)
			}
			if err != nil {
				return total, err
			}
			if n < int64(r.cfg.Batch) {
				break
			}
		}
	}
	e.Position = ""
	return total, r.save(ctx, e)
}

// replaceNames replaces a person, from e.Position on.
func (r *Runner) replaceNames(ctx context.Context, e *store.Erasure) error {
	scope := owner.Scope{TenantID: e.TenantID, Subject: e.Subject}
	names := r.cfg.Owner.Names()
	for _, name := range names[max(slices.Index(names, e.Position), 0):] {
		e.Position = name
		for {
			n, err := r.cfg.Owner.ReplaceNames(ctx, e, scope, name, r.cfg.Batch)
			if err == nil {
				err = r.saved(e)
			}
			if err != nil {
				return err
			}
			if n < int64(r.cfg.Batch) {
				break
			}
		}
	}
	e.Position = ""
	return r.save(ctx, e)
}

// keepHead keeps the end of the tenant's chain of audit rows for the certificate, before the rows are deleted. That
// hash proves an export that somebody made before.
func (r *Runner) keepHead(ctx context.Context, e *store.Erasure) error {
	if e.Kind != store.EraseTenant || e.Certificate != nil {
		return nil
	}
	no, hash, err := r.cfg.Owner.AuditHead(ctx, e.TenantID)
	if err != nil {
		return err
	}
	if e.Certificate, err = json.Marshal(Certificate{AuditRows: no, AuditHash: hash}); err != nil {
		return err
	}
	return r.save(ctx, e)
}

// deleteObjects deletes the tenant's artifacts, logs and archived runs.
func (r *Runner) deleteObjects(ctx context.Context, e *store.Erasure) (total int64, err error) {
	for _, kind := range []artifact.Kind{artifact.KindArtifacts, artifact.KindLogs, artifact.KindArchive} {
		for more := true; more; {
			removed, err := r.cfg.Bucket.Remove(ctx, artifact.Scope{Kind: kind, TenantID: e.TenantID}, r.cfg.Batch)
			add(e, "bucket "+string(kind), removed.Objects)
			add(e, "bucket bytes", removed.Bytes)
			total, more = total+removed.Objects, removed.More
			if err == nil {
				err = r.save(ctx, e)
			}
			if err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// forgetExecutions deletes the histories of the tenant's runs, and waits until the engine lists none: it deletes in the
// background, up to a minute later. It counts each execution once.
func (r *Runner) forgetExecutions(ctx context.Context, e *store.Erasure) (total int64, err error) {
	total, err = r.cfg.Engine.CountTenant(ctx, e.TenantID)
	if err != nil || total == 0 {
		return 0, err
	}
	if e.Position != forgetting {
		add(e, "engine executions", total)
		e.Position = forgetting
		if err := r.save(ctx, e); err != nil {
			return total, err
		}
	}
	left := total
	for try := 0; left > 0; try++ {
		if try == mostForgets {
			return total, fmt.Errorf("the engine still lists %d executions of the tenant: check that it deletes, and run the "+
				"erasure again", left)
		}
		if try%forgetEvery == 0 {
			for more := true; more; {
				if _, more, err = r.cfg.Engine.ForgetTenant(ctx, e.TenantID, r.cfg.Batch); err != nil {
					return total, err
				}
			}
		}
		if left, err = r.cfg.Engine.CountTenant(ctx, e.TenantID); err != nil || left == 0 {
			break
		}
		if err := pause(ctx, passPause); err != nil {
			return total, err
		}
	}
	e.Position = ""
	return total, err
}

// forgetting is the position of an erasure whose executions are counted.
const forgetting = "forgetting"

// again repeats the deletions until they find nothing.
func (r *Runner) again(ctx context.Context, e *store.Erasure) error {
	for pass, quiet := 1, 0; quiet < quietPasses; pass++ {
		if pass > mostPasses {
			return errors.New("something still writes for the tenant: remove its accounts from the settings, end its workers, and " +
				"run the erasure again")
		}
		e.Position = ""
		var total int64
		for _, f := range []func(context.Context, *store.Erasure) (int64, error){r.deleteRows, r.deleteObjects,
			r.forgetExecutions} {
			n, err := f(ctx, e)
			if err != nil {
				return err
			}
			total += n
		}
		if quiet++; total > 0 {
			quiet = 0
		}
		if err := pause(ctx, passPause); err != nil {
			return err
		}
	}
	return nil
}
