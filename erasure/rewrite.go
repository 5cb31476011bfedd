package erasure

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// OpenRunsError says that an erasure of a person waits: runs are open, or bulks work, and name the person. Their logs
// cannot change before they end. The erasure ends none of them.
type OpenRunsError struct{ store.OpenWork }

func (e *OpenRunsError) Error() string {
	var names []string
	for _, id := range e.Runs {
		names = append(names, "run "+id)
	}
	for _, id := range e.Bulks {
		names = append(names, "bulk "+id)
	}
	if more := e.Count - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("the erasure waits for what is open and names the person: %s; wait until it has ended, or end it, "+
		"and run the command again", strings.Join(names, ", "))
}

// cleaning begins the position of an erasure that has rewritten a run, whose old archive and history are left.
const cleaning = "clean "

// rewriting returns what the steps of e rewrite with.
func (r *Runner) rewriting(e *store.Erasure) owner.Rewriting {
	id := e.ID
	return owner.Rewriting{
		Scope:    owner.Scope{TenantID: e.TenantID, Subject: e.Subject},
		Renaming: owner.Renaming{Name: e.Subject, Pseudonym: store.Pseudonym(id)},
		Vouch: func(w store.Rewrite) store.AuditRow {
			w.Erasure = id
			return r.cfg.Keys.RewriteRow(w)
		},
		Prior: func(ctx context.Context, object string) ([]store.Rewrite, error) {
			return r.cfg.Keys.Rewritten(ctx, r.cfg.Store, e.TenantID, object)
		},
	}
}

// rewriteTexts replaces a person in the rows of the tenant that belong to no log, from e.Position on. The person loses
// every right with it: policies then grant it to the pseudonym, as which nobody can sign in.
func (r *Runner) rewriteTexts(ctx context.Context, e *store.Erasure) (total int64, err error) {
	w, tables := r.rewriting(e), r.cfg.Owner.Texts()
	for _, name := range tables[max(slices.Index(tables, e.Position), 0):] {
		e.Position = name
		for from, more := []any(nil), true; more; more = from != nil {
			var n int64
			if n, from, err = r.cfg.Owner.RewriteTexts(ctx, e, w, name, from, r.cfg.Batch); err == nil {
				err = r.saved(e)
			}
			if total += n; err != nil {
				return total, err
			}
		}
	}
	e.Position = ""
	return total, r.save(ctx, e)
}

// rewriteLogs replaces a person in the logs of ended runs, from e.Position on, one transaction a run. It returns how
// many runs it rewrote, and the open ones that name the person.
func (r *Runner) rewriteLogs(ctx context.Context, e *store.Erasure) (total int64, open []string, err error) {
	w := r.rewriting(e)
	after := e.Position
	if id, ok := strings.CutPrefix(e.Position, cleaning); ok {
		if err := r.clean(ctx, e, id); err != nil {
			return 0, nil, err
		}
		after = id
	}
	for {
		runs, err := r.cfg.Owner.NamedRuns(ctx, w.Scope, after, r.cfg.Batch)
		if err != nil {
			return total, nil, err
		}
		for _, x := range runs {
			if err := r.findArchive(ctx, x.Archive); err != nil {
				return total, nil, err
			}
			if named, err := r.isNamed(ctx, w, x); err != nil {
				return total, nil, err
			} else if !named {
				continue
			}
			if !x.Ended {
				open = append(open, x.RunID)
				continue
			}
			if err := r.rewriteRun(ctx, e, w, x); err != nil {
				return total, nil, fmt.Errorf("run %s: %w", x.RunID, err)
			}
			total++
		}
		if len(runs) < r.cfg.Batch {
			break
		}
		after = runs[len(runs)-1].RunID
		e.Position = after
		if err := r.save(ctx, e); err != nil {
			return total, nil, err
		}
	}
	e.Position = ""
	return total, open, r.save(ctx, e)
}

// findArchive makes the store name the archive that the bucket has, when a restored backup names one that an erasure
// has replaced since.
func (r *Runner) findArchive(ctx context.Context, a *store.ArchivedRun) error {
	if a == nil {
		return nil
	}
	in, err := r.cfg.Archive.OpenArchived(ctx, a.Location)
	if err == nil {
		return in.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	found, ok, err := archive.FindCopy(ctx, r.cfg.Archive, *a)
	if err != nil || !ok {
		return err
	}
	*a = found
	return r.cfg.Owner.MoveArchive(ctx, found)
}

// isNamed reports whether rows or the archive of a run name the person.
func (r *Runner) isNamed(ctx context.Context, w owner.Rewriting, x owner.NamedRun) (bool, error) {
	if x.Named || x.Archive == nil {
		return x.Named, nil
	}
	return r.namesIn(ctx, x.Archive.Location, w.Renaming)
}

// rewriteRun replaces a person in one ended run. The new archive is written before the store names it, and the old one
// is removed behind that.
func (r *Runner) rewriteRun(ctx context.Context, e *store.Erasure, w owner.Rewriting, x owner.NamedRun) error {
	rewrite := owner.RunRewrite{RunID: x.RunID}
	var err error
	if rewrite.Payloads, rewrite.Seals, err = r.rewriteLog(ctx, w, x.RunID); err != nil {
		return err
	}
	if x.Archive != nil {
		a, err := r.cfg.WriteArchive(ctx, x.RunID, w.Renaming)
		if err != nil {
			return err
		}
		rewrite.Archive = &a
	}
	e.Position = cleaning + x.RunID
	if err := r.cfg.Owner.RewriteRun(ctx, e, w, rewrite); err != nil {
		return err
	}
	if err := r.saved(e); err != nil {
		return err
	}
	return r.clean(ctx, e, x.RunID)
}

// clean removes what a rewritten run has left behind: its old archive, and its history in the engine.
func (r *Runner) clean(ctx context.Context, e *store.Erasure, runID string) error {
	list, err := r.cfg.Store.FindArchived(ctx, runID)
	if err != nil {
		return err
	}
	for _, a := range list {
		if err := archive.RemoveCopies(ctx, r.cfg.Archive, a); err != nil {
			return err
		}
	}
	return r.cfg.Engine.ForgetRun(ctx, run.Identity{RunID: runID, TenantID: e.TenantID})
}

// rewriteLog reads the log of a run and returns the payloads that change, and the seals that change with them. A seal
// that the log did not match before stays, so that a check of the audit still finds the forgery.
func (r *Runner) rewriteLog(ctx context.Context, w owner.Rewriting, runID string) (map[run.Seq][]byte, []store.Rewrite,
	error) {
	seals, err := r.cfg.Owner.Seals(ctx, w.Scope.TenantID, runID)
	if err != nil {
		return nil, nil, err
	}
	payloads := map[run.Seq][]byte{}
	var out []store.Rewrite
	var was, is store.LogSeal
	for {
		events, err := r.cfg.Store.Events(ctx, runID, was.Seq, store.MaxPage)
		if err != nil {
			return nil, nil, err
		}
		if len(events) == 0 {
			return payloads, out, nil
		}
		for _, event := range events {
			was = store.LogSeal{Seq: event.Seq, Hash: store.NextLogHash(was, event)}
			if payload := w.Renaming.JSON(event.Payload); string(payload) != string(event.Payload) {
				event.Payload = payload
				payloads[event.Seq] = payload
			}
			is = store.LogSeal{Seq: event.Seq, Hash: store.NextLogHash(is, event)}
			object := store.LogSealObject(runID, event.Seq)
			i := slices.IndexFunc(seals, func(s store.AuditRow) bool { return s.Object == object })
			if i < 0 || was == is {
				continue
			}
			recorded, err := store.ParseLogSeal(object, seals[i].Digest)
			if err == nil {
				recorded, err = r.cfg.Keys.Resolve(ctx, r.cfg.Store, w.Scope.TenantID, runID, recorded)
			}
			if err == nil && recorded == was {
				out = append(out, store.Rewrite{TenantID: w.Scope.TenantID, Object: object, Made: seals[i].ID,
					Digest: fmt.Sprintf("%x", is.Hash)})
			}
		}
	}
}

// waitForRuns goes on when nothing open names the person. An *OpenRunsError otherwise.
func (r *Runner) waitForRuns(ctx context.Context, e *store.Erasure) error {
	if _, waits := store.OpenWorkOf(*e); waits {
		e.Position = ""
	}
	_, open, err := r.rewriteLogs(ctx, e)
	if err != nil {
		return err
	}
	return r.waitFor(ctx, e, open)
}

// waitFor saves what the erasure waits for, so that people see it, and returns it as an *OpenRunsError; nil for
// nothing.
func (r *Runner) waitFor(ctx context.Context, e *store.Erasure, open []string) error {
	bulks, err := r.cfg.Owner.WorkingBulks(ctx, owner.Scope{TenantID: e.TenantID, Subject: e.Subject})
	if err != nil || len(open)+len(bulks) == 0 {
		return err
	}
	work := store.OpenWork{At: r.cfg.Now().UTC().Truncate(time.Second), Count: len(open) + len(bulks),
		Runs: open[:min(len(open), store.MaxOpenWork)], Bulks: bulks}
	e.Position = work.Position()
	if err := r.save(ctx, e); err != nil {
		return err
	}
	return &OpenRunsError{work}
}

// rewriteAgain repeats the replacements until they find nothing: a server may have written a state that it had read
// before. The certificate counts the rows that are left after the last pass.
func (r *Runner) rewriteAgain(ctx context.Context, e *store.Erasure) error {
	changed := e.Counts["names runs"] > 0
	for range mostRewrites {
		if changed {
			if err := pause(ctx, passPause); err != nil {
				return err
			}
		}
		e.Position = ""
		n, err := r.rewriteTexts(ctx, e)
		if err != nil {
			return err
		}
		runs, open, err := r.rewriteLogs(ctx, e)
		switch {
		case err != nil:
			return err
		case len(open) > 0:
			return r.waitFor(ctx, e, open)
		case n+runs == 0:
			return r.linkAudit(ctx)
		}
		changed = runs > 0
	}
	return r.linkAudit(ctx)
}

// mostRewrites bounds the passes of rewriteAgain.
const mostRewrites = 4

// linkAudit links the rows that vouch for the rewrites, so that a check of the audit finds them at once.
func (r *Runner) linkAudit(ctx context.Context) error {
	for {
		n, err := r.cfg.Store.LinkAudit(ctx, store.MaxPage)
		if err != nil || n == 0 {
			return err
		}
	}
}

// namesIn reports whether an archived log names the person. One that the retention has deleted does not.
func (r *Runner) namesIn(ctx context.Context, location string, to owner.Renaming) (bool, error) {
	body, err := r.cfg.Archive.OpenArchived(ctx, location)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer body.Close()
	plain, err := gzip.NewReader(body)
	if err != nil {
		return false, err
	}
	lines := bufio.NewReader(io.LimitReader(plain, maxUnpacked))
	for {
		line, err := lines.ReadString('\n')
		if to.Value(line) != line {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// maxUnpacked bounds what is read of one archived log.
const maxUnpacked = 4 << 30
