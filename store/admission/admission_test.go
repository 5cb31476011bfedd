package admission_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
)

func terms(change func(*store.Terms)) store.Terms {
	t := store.Unlimited()
	change(&t)
	return t
}

func TestArrive_AdmitsQueuesDelaysOrRefuses(t *testing.T) {
	t.Parallel()
	empty := func(full *time.Time) { *full = epoch.Add(time.Minute) } // makes a bucket without a token
	for name, c := range map[string]struct {
		terms func(*store.Terms)
		rows  func(*admission.Rows)
		want  admission.Verdict
		code  run.Code
		retry time.Duration
	}{
		"unlimited": {want: admission.Verdict{Admitted: true}},
		"takes the token of the project before that of the tenant": {
			terms: func(t *store.Terms) { t.Project.PerMinute, t.Tenant.PerMinute = 60, 0 },
			want:  admission.Verdict{Admitted: true, Token: &admission.Token{ProjectID: "p", FullAt: epoch.Add(time.Second)}},
		},
		"waits for a token": {
			terms: func(t *store.Terms) { t.Tenant.PerMinute = 2 }, rows: func(r *admission.Rows) { empty(&r.TenantFull) },
			want: admission.Verdict{Why: store.WaitQuota, Lacks: admission.OfProject, AskedAt: epoch.Add(30 * time.Second)},
		},
		"waits for other terms when the bucket has size 0": {
			terms: func(t *store.Terms) { t.Tenant.PerMinute = 0 },
			want:  admission.Verdict{Why: store.WaitQuota, Lacks: admission.OfProject, AskedAt: epoch.Add(admission.Recheck)},
		},
		"waits for a slot of the installation": {
			terms: func(t *store.Terms) { t.MaxActive = 3 }, rows: func(r *admission.Rows) { r.Installation.Active = 3 },
			want: admission.Verdict{Why: store.WaitSlot, Lacks: admission.OfInstallation,
				AskedAt: epoch.Add(admission.Recheck)},
		},
		"waits for a slot of the tenant": {
			terms: func(t *store.Terms) { t.Tenant.MaxActive = 3 }, rows: func(r *admission.Rows) { r.Tenant.Active = 3 },
			want: admission.Verdict{Why: store.WaitSlot, Lacks: admission.OfTenant, AskedAt: epoch.Add(admission.Recheck)},
		},
		"waits behind others of its lane": {
			rows: func(r *admission.Rows) { r.Project.Waiting = 1 },
			want: admission.Verdict{Why: store.WaitTurn, Lacks: admission.OfProject},
		},
		"waits behind others of its tenant when they share a bucket": {
			terms: func(t *store.Terms) { t.Tenant.PerMinute = 2 }, rows: func(r *admission.Rows) { r.OthersOfTenant = true },
			want: admission.Verdict{Why: store.WaitTurn, Lacks: admission.OfProject},
		},
		"does not wait behind others with which it shares no limit": {
			terms: func(t *store.Terms) { t.Project.PerMinute = 60 }, rows: func(r *admission.Rows) {
				r.OthersOfTenant,
					r.OthersOfInstallation = true, true
			},
			want: admission.Verdict{Admitted: true, Token: &admission.Token{ProjectID: "p", FullAt: epoch.Add(time.Second)}},
		},
		"waits behind others of the installation when they share a limit": {
			terms: func(t *store.Terms) { t.MaxActive = 3 }, rows: func(r *admission.Rows) { r.OthersOfInstallation = true },
			want: admission.Verdict{Why: store.WaitTurn, Lacks: admission.OfProject},
		},
		"waits for the end of a hold under every strategy": {
			terms: func(t *store.Terms) { t.Hold, t.Strategy = true, store.StrategyReject },
			want:  admission.Verdict{Why: store.WaitHold, Lacks: admission.OfTenant, AskedAt: epoch.Add(admission.HoldFor)},
		},
		"refused when the lanes of the tenant are full": {
			terms: func(t *store.Terms) { t.Tenant.PerMinute, t.Tenant.MaxWaiting = 2, 5 },
			rows:  func(r *admission.Rows) { empty(&r.TenantFull); r.Tenant.Waiting = 5 },
			code:  run.CodeQueueFull, retry: 30 * time.Second,
		},
		"refused when the lane of the project is full": {
			terms: func(t *store.Terms) { t.Project.MaxActive, t.Project.MaxWaiting = 0, 0 },
			code:  run.CodeQueueFull,
		},
		"refused without a token under REJECT": {
			terms: func(t *store.Terms) { t.Tenant.PerMinute, t.Strategy = 2, store.StrategyReject },
			rows:  func(r *admission.Rows) { empty(&r.TenantFull) },
			code:  run.CodeQuotaExceeded, retry: 30 * time.Second,
		},
		"refused without a slot under REJECT": {
			terms: func(t *store.Terms) { t.Project.MaxActive, t.Strategy = 1, store.StrategyReject },
			rows:  func(r *admission.Rows) { r.Project.Active, r.Project.Pace = 1, 7*time.Second },
			code:  run.CodeQuotaExceeded, retry: 7 * time.Second,
		},
		"admitted for the time of its token under DELAY": {
			terms: func(t *store.Terms) {
				t.Tenant.PerMinute, t.Tenant.MaxWaiting, t.Strategy = 2, 1, store.StrategyDelay
			},
			rows: func(r *admission.Rows) { empty(&r.TenantFull) },
			want: admission.Verdict{Admitted: true, NotBefore: epoch.Add(30 * time.Second),
				Token: &admission.Token{FullAt: epoch.Add(90 * time.Second)}},
		},
		"refused under DELAY when as many tokens as may wait are borrowed": {
			terms: func(t *store.Terms) {
				t.Tenant.PerMinute, t.Tenant.MaxWaiting, t.Strategy = 2, 1, store.StrategyDelay
			},
			rows: func(r *admission.Rows) { r.TenantFull = epoch.Add(90 * time.Second) },
			code: run.CodeQueueFull, retry: 30 * time.Second,
		},
		"refused under DELAY when the bucket has size 0": {
			terms: func(t *store.Terms) { t.Tenant.PerMinute, t.Strategy = 0, store.StrategyDelay },
			code:  run.CodeQuotaExceeded,
		},
		"waits for a slot under DELAY, because only tokens can be borrowed": {
			terms: func(t *store.Terms) { t.Project.MaxActive, t.Strategy = 0, store.StrategyDelay },
			want:  admission.Verdict{Why: store.WaitSlot, Lacks: admission.OfProject, AskedAt: epoch.Add(admission.Recheck)},
		},
	} {
		rows := admission.Rows{Now: epoch}
		of := store.Unlimited()
		if c.terms != nil {
			c.terms(&of)
		}
		if c.rows != nil {
			c.rows(&rows)
		}
		got, err := admission.Arrive(of, "p", rows)
		refused := (*store.RefusedError)(nil)
		if errors.As(err, &refused) != (c.code != "") ||
			(refused != nil && (refused.Code != c.code || refused.RetryAfter != c.retry)) {
			t.Errorf("%s: error %v, want code %q with RetryAfter %v", name, err, c.code, c.retry)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: verdict (-want +got):\n%s", name, diff)
		}
	}
}

// If only tokens limit the runs, each waiting run is admitted exactly at its estimate, to the microsecond.
// contract: Q01
func TestEstimate_TokensAreExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		of := terms(func(t *store.Terms) { t.Tenant.PerMinute = 1 + random.IntN(20) })
		rows := admission.Rows{Now: epoch, TenantFull: epoch.Add(time.Duration(random.IntN(int(time.Minute))))}
		for rows.Now = epoch; ; {
			v := admission.Admit(of, "p", rows)
			if !v.Admitted {
				break
			}
			rows.TenantFull = v.Token.FullAt
		}
		estimates := make([]time.Duration, 10)
		for i := range estimates {
			rows.Project.Waiting, rows.Tenant.Waiting = int64(i), int64(i)
			estimates[i] = admission.Estimate(of, rows, i+1, 0)
		}
		for i, d := range estimates {
			for rows.Now = epoch.Add(d - time.Microsecond); ; rows.Now = epoch.Add(d) {
				v := admission.Admit(of, "p", rows)
				if v.Admitted != rows.Now.Equal(epoch.Add(d)) {
					t.Fatalf("seed %d: run %d has the estimate %v, but the verdict after %v is %+v", seed, i+1, d,
						rows.Now.Sub(epoch), v)
				}
				if v.Admitted {
					rows.TenantFull = v.Token.FullAt
					break
				}
			}
		}
	}
}

func TestEstimate_CountsTheTurnsOfOtherProjects(t *testing.T) {
	t.Parallel()
	rows := admission.Rows{Now: epoch, TenantFull: epoch.Add(time.Minute)}
	of := terms(func(t *store.Terms) { t.Tenant.PerMinute = 60 })
	rows.Tenant.Waiting, rows.Project.Waiting = 102, 2
	if got := admission.Estimate(of, rows, 3, 1); got != 6*time.Second {
		t.Errorf("third in the lane beside a project with 100 waiting runs, one token a second: estimate %v, want 6 s", got)
	}
	rows.Tenant.Waiting = 3
	if got := admission.Estimate(of, rows, 3, 1); got != 4*time.Second {
		t.Errorf("third in the lane beside a project with one waiting run: estimate %v, want 4 s", got)
	}
}

// A run that waits for the end of another one has no estimate, whichever limit the slot belongs to, and neither has any
// run behind it; an idle pace of admissions is no knowledge either.
func TestEstimate_IsUnknownFromTheFirstRunThatNeedsASlot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		terms func(*store.Terms)
		rows  func(*admission.Rows)
		want  []bool // by position: whether an estimate is known
	}{
		"both slots of the project are held": {
			terms: func(t *store.Terms) { t.Project.MaxActive = 2 }, rows: func(r *admission.Rows) { r.Project.Active = 2 },
			want: []bool{false, false, false},
		},
		"both slots of the tenant are held": {
			terms: func(t *store.Terms) { t.Tenant.MaxActive = 2 }, rows: func(r *admission.Rows) { r.Tenant.Active = 2 },
			want: []bool{false, false, false},
		},
		"both slots of the installation are held": {
			terms: func(t *store.Terms) { t.MaxActive = 2 }, rows: func(r *admission.Rows) { r.Installation.Active = 2 },
			want: []bool{false, false, false},
		},
		"two of three slots are free": {
			terms: func(t *store.Terms) { t.Tenant.MaxActive = 3 }, rows: func(r *admission.Rows) { r.Tenant.Active = 1 },
			want: []bool{true, true, false},
		},
		"slots are not limited": {want: []bool{true, true, true}},
	} {
		of := terms(func(t *store.Terms) { t.Tenant.PerMinute = 6 })
		rows := admission.Rows{Now: epoch, TenantFull: epoch.Add(time.Minute)}
		rows.Project.Pace = 3 * time.Second
		if c.terms != nil {
			c.terms(&of)
			c.rows(&rows)
		}
		last := time.Duration(0)
		for i, known := range c.want {
			rows.Project.Waiting, rows.Tenant.Waiting = int64(i+1), int64(i+1)
			got := admission.Estimate(of, rows, i+1, 0)
			if (got > 0) != known || (admission.LacksSlot(of, rows, i+1, 0) == admission.OfNobody) != known {
				t.Errorf("%s: position %d has the estimate %v, want a known one: %v", name, i+1, got, known)
			}
			if known && got < last {
				t.Errorf("%s: position %d has the estimate %v, below the %v of the run before it", name, i+1, got, last)
			}
			last = got
		}
	}
}

// Lanes that always have waiting runs get turns in proportion to their weights, however other lanes come and go.
// contract: Q12
func TestTurn_SharesAreByWeight(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 3))
		weights := []int{1 + random.IntN(4), 1 + random.IntN(4), 1 + random.IntN(4), 1}
		pass := make([]float64, len(weights))
		count := make([]int, len(weights))
		turn := 0.0
		const rounds = 3000
		for range rounds {
			chosen := -1
			for i := range weights {
				waits := i < 3 || random.IntN(4) == 0 // the last lane seldom has waiting runs
				if waits && (chosen < 0 || pass[i] < pass[chosen]) {
					chosen = i
				}
			}
			count[chosen]++
			pass[chosen], turn = admission.Turn(pass[chosen], turn, weights[chosen])
		}
		for i := range 3 {
			for j := range i {
				a, b := float64(count[i])/float64(weights[i]), float64(count[j])/float64(weights[j])
				if d := a - b; d > 2 || d < -2 {
					t.Fatalf("seed %d: turns %v are not in proportion to the weights %v", seed, count, weights)
				}
			}
		}
		if count[3] > count[0]/weights[0]+2 {
			t.Fatalf("seed %d: the lane that seldom waits had %d of the turns %v, more than its share", seed, count[3], count)
		}
	}
}

func TestAdmitted_PaceFollowsTheTimeBetweenAdmissions(t *testing.T) {
	t.Parallel()
	l := admission.Lane{AdmittedAt: epoch}
	now := epoch
	for range 30 {
		now = now.Add(2 * time.Second)
		l = admission.LaneAfterAdmission(l, now)
	}
	if l.Pace != 2*time.Second || !l.AdmittedAt.Equal(now) {
		t.Errorf("pace %v, admitted at %v; want 2 s at %v", l.Pace, l.AdmittedAt, now)
	}
	for range 30 {
		now = now.Add(8 * time.Second)
		l = admission.LaneAfterAdmission(l, now)
	}
	if d := l.Pace - 8*time.Second; d > 10*time.Millisecond || d < -10*time.Millisecond {
		t.Errorf("pace %v after 30 admissions every 8 s, want about 8 s", l.Pace)
	}
}
