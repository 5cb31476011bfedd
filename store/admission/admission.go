package admission

import (
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	// Recheck is the interval in which a store checks a waiting lane again when time alone does not help it, because it
	// lacks a slot or its bucket has size 0. The terms may have changed meanwhile.
	Recheck = 10 * time.Second
	// HoldFor is the same interval for a lane that Terms.Hold makes wait.
	HoldFor = time.Second
)

// Lane is a row of the table lane. Lanes share their parent's capacity by stride scheduling: the lane with the lowest
// Pass is next, and an admission increases its Pass by 1/weight.
type Lane struct {
	Active, Waiting int64
	Pass            float64
	Turn            float64 // the Pass, before its admission, of the lane below that was admitted last
	Pace            time.Duration
	AdmittedAt      time.Time
}

// Rows are the rows that decide about a run, which the store has locked.
type Rows struct {
	Now                           time.Time
	Installation, Tenant, Project Lane
	TenantFull, ProjectFull       time.Time // when the buckets of starts are full; zero: now
	// The others are waiting runs that might be admitted now if there were capacity: of any tenant, and of other projects
	// of the tenant. They go before a run that arrives.
	OthersOfInstallation, OthersOfTenant bool
}

// Scope says which limit keeps a run waiting.
type Scope int

// Scopes.
const (
	OfNobody Scope = iota
	OfProject
	OfTenant
	OfInstallation
)

// Verdict is the decision about a run.
type Verdict struct {
	Admitted  bool
	Token     *Token    // the token that the run took; nil when there is no bucket
	NotBefore time.Time // start of an admitted run that borrowed its token; zero: at once

	Why     store.WaitReason // "" when Admitted
	Lacks   Scope
	AskedAt time.Time // when the store must decide again, if nothing else changes before
}

// Token is a token that a run took.
type Token struct {
	ProjectID string    // "": from the tenant's bucket
	FullAt    time.Time // of the bucket, after the token was taken
}

// Arrive decides about a run that has just arrived: it is admitted or waits in the lane of its project. A
// *store.RefusedError says that it is refused.
func Arrive(t store.Terms, projectID string, r Rows) (Verdict, error) {
	v := judge(t, projectID, r)
	mayBorrow := t.Strategy == store.StrategyDelay && v.Why == store.WaitQuota
	if v.Why != store.WaitHold && othersFirst(t, r) {
		v = Verdict{Why: store.WaitTurn, Lacks: OfProject}
		mayBorrow = false
	}
	switch {
	case v.Admitted:
		return v, nil
	case mayBorrow:
		return borrow(t, projectID, r)
	case t.Strategy == store.StrategyReject && v.Why != store.WaitHold:
		return Verdict{}, &store.RefusedError{Code: run.CodeQuotaExceeded, RetryAfter: retryAfter(t, r)}
	case isFull(t.Tenant, r.Tenant), isFull(t.Project, r.Project):
		return Verdict{}, &store.RefusedError{Code: run.CodeQueueFull, RetryAfter: retryAfter(t, r)}
	}
	return v, nil
}

// Admit decides about the first waiting run of the lane whose turn it is.
func Admit(t store.Terms, projectID string, r Rows) Verdict { return judge(t, projectID, r) }

// judge compares a run with the terms, without regard to others that wait.
func judge(t store.Terms, projectID string, r Rows) Verdict {
	again := r.Now.Truncate(Recheck).Add(Recheck) // the same time for all lanes, so that one check serves them all
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
		// Only this project waits: another project of the tenant may have a bucket of its own.
		return Verdict{Why: store.WaitQuota, Lacks: OfProject, AskedAt: r.Now.Add(wait)}
	}
	return Verdict{Admitted: true, Token: &Token{ProjectID: b.projectID, FullAt: fullAt}}
}

// othersFirst reports whether other waiting runs go before a run that arrives.
func othersFirst(t store.Terms, r Rows) bool {
	shared := t.Tenant.MaxActive >= 0 || (t.Project.PerMinute < 0 && t.Tenant.PerMinute >= 0)
	return r.Project.Waiting > 0 || (shared && r.OthersOfTenant) || (t.MaxActive >= 0 && r.OthersOfInstallation)
}

// isFull reports whether a lane has as many waiting runs as its share allows.
func isFull(s store.Share, l Lane) bool { return s.MaxWaiting >= 0 && l.Waiting >= int64(s.MaxWaiting) }

// bucket is the bucket from which a run takes its token.
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

// borrow takes a token that does not exist yet; the run starts when it exists.
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
	return Verdict{Admitted: true, Token: &Token{ProjectID: b.projectID, FullAt: at.Add(fillTime)}, NotBefore: at}, nil
}

// interval returns the time in which a bucket gets one token.
func interval(perMinute int) time.Duration {
	return (fillTime / time.Duration(perMinute)).Truncate(time.Microsecond)
}

// until returns the time until the bucket can give n tokens.
func until(fullAt, now time.Time, perMinute, n int) time.Duration {
	if fullAt.Before(now) {
		fullAt = now
	}
	return max(0, fullAt.Sub(now)+time.Duration(n)*interval(perMinute)-fillTime)
}

// Estimate returns how long a run at position of its lane, from 1, waits from now on, while lanes of that many other
// projects of its tenant have waiting runs. It is the time until its token comes, which is exact for a single lane.
// 0 is at once or unknown. It is unknown when an active run must end first, because nobody knows when that will be, or
// when the bucket never fills. Along a lane the estimates never decrease, and none is known behind an unknown one.
func Estimate(t store.Terms, r Rows, position, projects int) time.Duration {
	b := bucketOf(t, "", r)
	if b.perMinute <= 0 || LacksSlot(t, r, position, projects) != OfNobody {
		return 0
	}
	ahead := int64(position)
	if t.Project.PerMinute < 0 { // the projects share the tenant's bucket and take turns
		ahead += othersAhead(r, position, projects)
	}
	return until(b.fullAt, r.Now, b.perMinute, int(ahead))
}

// LacksSlot returns whose limit of active runs keeps a run at position of its lane, from 1, from starting before an
// active run has ended: there are fewer free slots than runs up to it. OfNobody: there are enough. projects is that of
// Estimate.
func LacksSlot(t store.Terms, r Rows, position, projects int) Scope {
	lacks := func(most int, l Lane, others int64) bool {
		return most >= 0 && l.Active+int64(position)+others > int64(most)
	}
	others := othersAhead(r, position, projects)
	switch {
	case lacks(t.Project.MaxActive, r.Project, 0):
		return OfProject
	case lacks(t.Tenant.MaxActive, r.Tenant, others):
		return OfTenant
	case lacks(t.MaxActive, r.Installation, others):
		return OfInstallation
	}
	return OfNobody
}

// othersAhead returns how many waiting runs of other projects start before a run at position, because lanes take turns.
func othersAhead(r Rows, position, projects int) int64 {
	return min(r.Tenant.Waiting-r.Project.Waiting, int64(position)*int64(projects))
}

// retryAfter returns when a refused run should be requested again: when its token comes, and no earlier than the pace
// of recent admissions suggests. Unlike an estimate it promises nothing, so it may be a guess.
func retryAfter(t store.Terms, r Rows) time.Duration {
	b := bucketOf(t, "", r)
	if b.perMinute <= 0 {
		return r.Project.Pace
	}
	return max(r.Project.Pace, until(b.fullAt, r.Now, b.perMinute, 1))
}

// Turn returns the new pass of a lane after an admission, and the new turn of the lane above. A pass below turn is
// raised to turn first, so that a lane that had no waiting runs, or could not be admitted, has not saved up turns.
func Turn(pass, turn float64, weight int) (newPass, newTurn float64) {
	newTurn = max(pass, turn)
	return newTurn + 1/float64(max(1, weight)), newTurn
}

// LaneAfterAdmission returns the lane of a project after the admission of one of its waiting runs at now.
func LaneAfterAdmission(l Lane, now time.Time) Lane {
	gap := max(0, now.Sub(l.AdmittedAt))
	if l.Pace == 0 {
		l.Pace = gap
	} else {
		l.Pace += (gap - l.Pace) / 4
	}
	l.AdmittedAt = now
	return l
}
