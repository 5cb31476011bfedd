package admission

import (
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	// Recheck is how long a lane whose lack no time ends (places, a bucket of no
	// tokens) is left alone: what it may have can have changed.
	Recheck = 10 * time.Second
	// HoldFor is the same for what is held.
	HoldFor = time.Second
)

// Lane is a row of lane.
type Lane struct {
	Active, Waiting int64
	Pass, Turn      float64
	Pace            time.Duration
	AdmittedAt      time.Time
}

// Rows is what a store has locked of the place where a run is to have its place.
type Rows struct {
	Now                           time.Time
	Installation, Tenant, Project Lane
	TenantFull, ProjectFull       time.Time // the buckets of starts; zero: full
	// Others say that somebody else might be admitted now if there is something to have:
	// in the installation, and in another project of the tenant. They go first.
	OthersOfInstallation, OthersOfTenant bool
}

// Scope is whose lack keeps a run waiting.
type Scope int

// Scopes.
const (
	OfNobody Scope = iota
	OfProject
	OfTenant
	OfInstallation
)

// Verdict is what becomes of a run.
type Verdict struct {
	Admitted  bool
	Token     *Token    // that it took; nil when there is no bucket
	NotBefore time.Time // of an admitted one that borrowed its token; zero: at once

	Why     store.WaitReason // of one that is not admitted
	Lacks   Scope
	AskedAt time.Time // when it is to be asked again, if nothing else happens
}

// Token is a token that was taken.
type Token struct {
	ProjectID string // "": of the tenant's bucket
	FullAt    time.Time
}

// Arrive decides about a run that has just come: it is admitted, or waits in the lane
// of its project. A *store.RefusedError says that it is not taken in.
func Arrive(t store.Terms, projectID string, r Rows) (Verdict, error) {
	v := judge(t, projectID, r)
	mayBorrow := t.Strategy == store.StrategyDelay && v.Why == store.WaitQuota
	if v.Why != store.WaitHold && turns(t, r) {
		v = Verdict{Why: store.WaitTurn, Lacks: OfProject}
		mayBorrow = false
	}
	switch {
	case v.Admitted:
		return v, nil
	case mayBorrow:
		return borrow(t, projectID, r)
	case t.Strategy == store.StrategyReject && v.Why != store.WaitHold:
		return Verdict{}, &store.RefusedError{Code: run.CodeQuotaExceeded, RetryAfter: Estimate(t, r, 1, 0)}
	case full(t.Tenant, r.Tenant), full(t.Project, r.Project):
		return Verdict{}, &store.RefusedError{Code: run.CodeQueueFull, RetryAfter: Estimate(t, r, 1, 0)}
	}
	return v, nil
}

// Admit decides about the first waiting run of the lane whose turn it is.
func Admit(t store.Terms, projectID string, r Rows) Verdict { return judge(t, projectID, r) }

// judge holds a run against the terms alone.
func judge(t store.Terms, projectID string, r Rows) Verdict {
	again := r.Now.Truncate(Recheck).Add(Recheck) // all of them at once, so that nobody is woken for each
	switch {
	case t.Hold:
		return Verdict{Why: store.WaitHold, Lacks: OfTenant, AskedAt: r.Now.Truncate(HoldFor).Add(HoldFor)}
	case t.MaxActive >= 0 && r.Installation.Active >= int64(t.MaxActive):
		return Verdict{Why: store.WaitSlot, Lacks: OfInstallation, AskedAt: again}
	case t.Tenant.MaxActive >= 0 && r.Tenant.Active >= int64(t.Tenant.MaxActive):
		return Verdict{Why: store.WaitSlot, Lacks: OfTenant, AskedAt: again}
	case t.Project.MaxActive >= 0 && r.Project.Active >= int64(t.Project.MaxActive):
		return Verdict{Why: store.WaitSlot, Lacks: OfProject, AskedAt: again}
	}
	b := bucketOf(t, projectID, r)
	if b.perMinute < 0 {
		return Verdict{Admitted: true}
	}
	fullAt, wait := Take(b.fullAt, r.Now, b.perMinute)
	switch {
	case wait < 0:
		return Verdict{Why: store.WaitQuota, Lacks: OfProject, AskedAt: again}
	case wait > 0:
		// Another project of the tenant may have a bucket of its own.
		return Verdict{Why: store.WaitQuota, Lacks: OfProject, AskedAt: r.Now.Add(wait)}
	}
	return Verdict{Admitted: true, Token: &Token{ProjectID: b.projectID, FullAt: fullAt}}
}

// turns reports whether others go before one that arrives.
func turns(t store.Terms, r Rows) bool {
	shared := t.Tenant.MaxActive >= 0 || (t.Project.PerMinute < 0 && t.Tenant.PerMinute >= 0)
	return r.Project.Waiting > 0 || (shared && r.OthersOfTenant) || (t.MaxActive >= 0 && r.OthersOfInstallation)
}

func full(s store.Share, l Lane) bool { return s.MaxWaiting >= 0 && l.Waiting >= int64(s.MaxWaiting) }

// bucket is the bucket that a run takes its token of.
type bucket struct {
	projectID string
	perMinute int
	fullAt    time.Time
	most      int // tokens that may be borrowed; negative: not limited
}

func bucketOf(t store.Terms, projectID string, r Rows) bucket {
	if t.Project.PerMinute >= 0 {
		return bucket{projectID, t.Project.PerMinute, r.ProjectFull, t.Project.MaxWaiting}
	}
	return bucket{"", t.Tenant.PerMinute, r.TenantFull, t.Tenant.MaxWaiting}
}

// borrow takes a token that is not there yet: the run starts when it is.
func borrow(t store.Terms, projectID string, r Rows) (Verdict, error) {
	b := bucketOf(t, projectID, r)
	if b.perMinute == 0 {
		return Verdict{}, &store.RefusedError{Code: run.CodeQuotaExceeded}
	}
	at := r.Now.Add(until(b.fullAt, r.Now, b.perMinute, 1))
	if borrowed := int64((at.Sub(r.Now) + interval(b.perMinute) - 1) / interval(b.perMinute)); b.most >= 0 &&
		borrowed > int64(b.most) {
		return Verdict{}, &store.RefusedError{Code: run.CodeQueueFull,
			RetryAfter: at.Sub(r.Now) - time.Duration(b.most)*interval(b.perMinute)}
	}
	return Verdict{Admitted: true, Token: &Token{ProjectID: b.projectID, FullAt: at.Add(fill)}, NotBefore: at}, nil
}

// interval is the time in which one token of a bucket comes.
func interval(perMinute int) time.Duration {
	return (fill / time.Duration(perMinute)).Truncate(time.Microsecond)
}

// until is how long it takes before n more tokens can be had than were taken.
func until(fullAt, now time.Time, perMinute, n int) time.Duration {
	if fullAt.Before(now) {
		fullAt = now
	}
	return max(0, fullAt.Sub(now)+time.Duration(n)*interval(perMinute)-fill)
}

// Estimate is how long a run waits from now on that stands at position of its lane,
// from 1, beside lanes of so many other projects of its tenant: by the tokens that
// must come, which is exact for one lane, and by the pace of places. 0: nothing is known.
func Estimate(t store.Terms, r Rows, position, projects int) time.Duration {
	byPace := time.Duration(position) * r.Project.Pace
	b := bucketOf(t, "", r)
	if b.perMinute <= 0 {
		return byPace
	}
	ahead := position
	if t.Project.PerMinute < 0 { // projects take turns
		ahead += int(min(r.Tenant.Waiting-r.Project.Waiting, int64(position)*int64(projects)))
	}
	return max(byPace, until(b.fullAt, r.Now, b.perMinute, ahead))
}

// Turn lets one have its turn among those beside it: what its pass is then, and the
// turn of that which they are below. Who did not wait, or could not be admitted, has saved nothing.
func Turn(pass, turn float64, weight int) (newPass, newTurn float64) {
	newTurn = max(pass, turn)
	return newTurn + 1/float64(max(1, weight)), newTurn
}

// Admitted is the lane of a project after one of those that wait in it was admitted now.
func Admitted(l Lane, now time.Time) Lane {
	gap := max(0, now.Sub(l.AdmittedAt))
	if l.Pace == 0 {
		l.Pace = gap
	} else {
		l.Pace += (gap - l.Pace) / 4
	}
	l.AdmittedAt = now
	return l
}
