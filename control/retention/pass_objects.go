package retention

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/internal/dutycycle"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Term is a number of days that a policy gave to the artifacts of a kind until it was replaced by more days. Artifacts
// that were written before keep the end that they had then.
type Term struct {
	Kind  string    `json:"kind"`
	Days  int       `json:"days"`
	Until time.Time `json:"until"`
}

const (
	// straddle is how long after the end of a Term a run may end that wrote artifacts within it. Of a longer run such
	// artifacts are removed with those of today's policy; they cannot be read after their end.
	straddle = 30 * 24 * time.Hour
	maxTerms = 8 // of a kind
)

// name is the name of the marks of a Term.
func (t Term) name() string { return fmt.Sprintf("%s@%d", t.Kind, t.Until.Unix()) }

// noteTerms remembers what the policy said in the last pass about the kinds that it now keeps longer.
func (p *passOf) noteTerms() {
	if p.unreadable {
		return
	}
	for _, kind := range kinds {
		last, now := p.out.ArtifactDays[kind], p.days.Artifacts[kind]
		if last > 0 && (now <= 0 || now > last) {
			p.out.Terms = append(p.out.Terms, Term{Kind: kind, Days: last, Until: p.now})
		}
		p.out.ArtifactDays[kind] = now
		p.mergeTerms(kind)
	}
}

// mergeTerms bounds the terms of a kind: of too many, the two oldest become one that covers both.
func (p *passOf) mergeTerms(kind string) {
	of := []int{}
	for i, t := range p.out.Terms {
		if t.Kind == kind {
			of = append(of, i)
		}
	}
	if len(of) > maxTerms {
		older, next := p.out.Terms[of[0]], &p.out.Terms[of[1]]
		next.Days = min(next.Days, older.Days)
		p.dropTerm(of[0])
	}
}

func (p *passOf) dropTerm(i int) {
	for _, status := range ended {
		delete(p.out.Marks, p.out.Terms[i].name()+"/"+string(status))
	}
	p.out.Terms = slices.Delete(p.out.Terms, i, i+1)
}

// removeArtifacts removes the artifacts of ended runs that the policy no longer keeps, and those whose own end has
// come.
func (p *passOf) removeArtifacts(ctx context.Context) error {
	p.noteTerms()
	for _, kind := range kinds {
		err := p.sweep(ctx, kind, before(p.now, p.days.Artifacts[kind]), func(runID string) error {
			return p.removeArtifactsOf(ctx, runID, kind, func(run.ArtifactRef) bool { return true })
		})
		if err != nil {
			return err
		}
	}
	for i := 0; i < len(p.out.Terms); {
		t := p.out.Terms[i]
		until := before(p.now, t.Days)
		over := !until.Before(t.Until.Add(straddle))
		if over {
			until = t.Until.Add(straddle)
		}
		failed := p.out.Failed
		err := p.sweep(ctx, t.name(), until, func(runID string) error {
			return p.removeArtifactsOf(ctx, runID, t.Kind, func(ref run.ArtifactRef) bool { return isExpired(ref, p.now) })
		})
		if err != nil {
			return err
		}
		if over && p.out.Failed == failed && !p.hasSkipped(t.name()) {
			p.dropTerm(i)
			continue
		}
		i++
	}
	return nil
}

// removeArtifactsOf removes the artifacts of a run and kind that isOld selects.
func (p *passOf) removeArtifactsOf(ctx context.Context, runID, kind string, isOld func(run.ArtifactRef) bool) error {
	l, err := p.w.cfg.Store.Load(ctx, runID)
	if err != nil {
		return err
	}
	for _, ref := range l.State.Artifacts {
		if kindOf(ref.Kind) != kind || !isOld(ref) {
			continue
		}
		if err := p.checkFree(ctx, runID); err != nil {
			return err
		}
		if err := p.w.cfg.Bucket.RemoveArtifact(ctx, ref.URI); err != nil && !errors.Is(err, artifact.ErrNotFound) {
			return err
		}
		p.out.Objects++
	}
	return nil
}

func (p *passOf) hasSkipped(what string) bool {
	return slices.ContainsFunc(ended, func(status run.Status) bool {
		return len(p.out.Marks[what+"/"+string(status)].Skipped) > 0
	})
}

// removeObjects removes all objects of a kind of a run, in batches. A hold that is placed meanwhile keeps the rest.
func (p *passOf) removeObjects(ctx context.Context, kind artifact.Kind, runID string) error {
	for more := true; more; {
		if err := p.checkFree(ctx, runID); err != nil {
			return err
		}
		removed, err := p.w.cfg.Bucket.Remove(ctx, artifact.Scope{Kind: kind, TenantID: p.tenant, RunID: runID}, pageObjects)
		if err != nil {
			return err
		}
		p.out.Objects += removed.Objects
		if err := dutycycle.Waited(ctx); err != nil {
			return err
		}
		more = removed.More
	}
	return nil
}

// uploadLife is how long an upload may take before the retention ends it. Google and Azure end theirs after this time.
const uploadLife = 7 * 24 * time.Hour

// removeUploads removes what no event names: with the step logs, the records of tries and the uploads whose attempt
// died, and after a week the parts of uploads that were never finished.
func (p *passOf) removeUploads(ctx context.Context) error {
	err := p.sweep(ctx, "uploads", before(p.now, p.days.StepLogs), func(runID string) error {
		return p.removeUnnamed(ctx, runID)
	})
	if err != nil {
		return err
	}
	n, err := p.w.cfg.Bucket.AbortUploads(ctx, p.tenant, p.now.Add(-uploadLife), pageObjects)
	p.out.Objects += n
	return err
}

func (p *passOf) removeUnnamed(ctx context.Context, runID string) error {
	l, err := p.w.cfg.Store.Load(ctx, runID)
	if err != nil || len(l.State.Artifacts) >= run.MaxRunArtifacts {
		return err // the list may be incomplete; what it lacks ends with the run
	}
	named := make([]string, len(l.State.Artifacts))
	for i, ref := range l.State.Artifacts {
		named[i] = ref.URI
	}
	for more := true; more; {
		if err := p.checkFree(ctx, runID); err != nil {
			return err
		}
		removed, err := p.w.cfg.Bucket.RemoveUnnamed(ctx, p.tenant, runID, named, pageObjects)
		if err != nil {
			return err
		}
		p.out.Objects += removed.Objects
		more = removed.More
	}
	return nil
}

func (p *passOf) removeLogs(ctx context.Context) error {
	return p.sweep(ctx, "logs", before(p.now, p.days.StepLogs), func(runID string) error {
		return p.removeObjects(ctx, artifact.KindLogs, runID)
	})
}

// sweep calls remove for every run that ended before until, and continues after its marks in the next pass. It does
// nothing when until is zero.
func (p *passOf) sweep(ctx context.Context, what string, until time.Time, remove func(runID string) error) error {
	if until.IsZero() {
		return nil
	}
	late := p.now.Sub(until)
	for _, status := range ended {
		err := p.walk(ctx, what+"/"+string(status), func(m Mark, f func(candidate) error) error {
			return p.endedRuns(ctx, status, until, m, func(r store.EndedRun) error {
				return f(candidate{runID: r.RunID, at: r.EndedAt, due: r.EndedAt.Add(late), obstacle: r.Obstacle})
			})
		}, func(ctx context.Context, c candidate) error {
			if err := p.checkFree(ctx, c.runID); err != nil {
				return err
			}
			return remove(c.runID)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
