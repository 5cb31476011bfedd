package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// faulty is a store whose calls for bulks a test may refuse or follow.
type faulty struct {
	store.Store
	settle func() error // before each SettleBulkRows
	dead   atomic.Bool  // its process is: nothing of bulks is written any more
	inRun  func() error // before each InRun
	down   atomic.Bool  // Bulk is unavailable
}

func (f *faulty) SettleBulkRows(ctx context.Context, b store.Bulk, s store.BulkSettlement, ttl time.Duration) (store.Bulk, error) {
	if f.settle != nil {
		if err := f.settle(); err != nil {
			return store.Bulk{}, err
		}
	}
	return f.Store.SettleBulkRows(ctx, b, s, ttl)
}

func (f *faulty) ReleaseBulk(ctx context.Context, b store.Bulk, delay time.Duration) error {
	if f.dead.Load() {
		return errDead
	}
	return f.Store.ReleaseBulk(ctx, b, delay)
}

var errDead = errors.New("killed")

func (f *faulty) InRun(ctx context.Context, runID string, do func(store.RunTx) error) error {
	if f.inRun != nil {
		if err := f.inRun(); err != nil {
			return err
		}
	}
	return f.Store.InRun(ctx, runID, do)
}

func (f *faulty) Bulk(ctx context.Context, id string) (store.Bulk, error) {
	if f.down.Load() {
		return store.Bulk{}, store.ErrUnavailable
	}
	return f.Store.Bulk(ctx, id)
}

// bulkWorld is a world whose store may fail, with leases that a test can wait for.
func bulkWorld(t *testing.T, change ...func(*control.Config)) (*world, *faulty) {
	t.Helper()
	f := &faulty{}
	w := newWorld(t, append(change, func(c *control.Config) {
		f.Store, c.Store = c.Store, f
		c.Limits.LeaseTTL = time.Second
	})...)
	return w, f
}

// many makes n running runs.
func (w *world) many(n int) (ids []string) {
	w.t.Helper()
	for i := range n {
		ids = append(ids, w.queued(fmt.Sprintf("q%d", i), "a"))
	}
	w.handOver()
	for _, id := range ids {
		w.append(id, runtest.Start())
	}
	return ids
}

func bulkOf(requestID string, count int, runs control.BulkRuns) control.SignalRuns {
	return control.SignalRuns{
		RequestID: requestID, Runs: runs, ExpectedCount: count, Reason: "release",
		Signal: control.SignalRun{Signal: run.Signal{Type: run.Pause}, Payload: json.RawMessage(`{}`)},
	}
}

func (w *world) previewOf(p authz.Principal, in control.SignalRuns) control.ActionPreview {
	w.t.Helper()
	return must[control.ActionPreview](w.t)(w.PreviewAction(w.t.Context(), p, control.PreviewAction{Bulk: &control.PreviewBulk{Runs: in.Runs, Signal: in.Signal}}))
}

func (w *world) bulk(p authz.Principal, in control.SignalRuns) control.Bulk {
	w.t.Helper()
	return must[control.MadeBulk](w.t)(w.SignalRuns(w.t.Context(), p, in)).Bulk
}

func (w *world) bulkDone(p authz.Principal, id string) (b control.Bulk) {
	w.t.Helper()
	eventually(w.t, "the bulk is done", func() bool {
		b = must[control.Bulk](w.t)(w.Bulk(w.t.Context(), p, id))
		return b.State() == "DONE"
	})
	return b
}

func (w *world) bulkRows(p authz.Principal, id string) (out []control.BulkRow) {
	w.t.Helper()
	for after := ""; ; {
		page := must[control.BulkRowsPage](w.t)(w.BulkRows(w.t.Context(), p, control.BulkRowsQuery{BulkID: id, First: 200, After: after}))
		out = append(out, page.Rows...)
		if !page.HasNext {
			return out
		}
		after = fmt.Sprint(out[len(out)-1].No)
	}
}

func counts(b control.Bulk) []int {
	return []int{b.Total, b.Waiting(), b.Accepted, b.Rejected, b.Refused}
}

func (w *world) sends() (stop func()) {
	return w.spawn(func(ctx context.Context) error { return w.SendBulks(ctx, "one") })
}

// Check 32: a receipt for each of 200 runs, 3 of which refuse; asked for again, only these.
func TestBulk_32_200RunsOfWhich3FailThenOnlyThose(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.many(200)
	for _, i := range []int{7, 77, 177} {
		w.append(ids[i], runtest.Draft(run.RunCancelled, "", 1))
	}
	b := w.bulk(w.eng(), bulkOf("b1", 200, control.BulkRuns{IDs: ids}))
	w.sends() // nobody watches
	b = w.bulkDone(w.eng(), b.ID)
	if diff := cmp.Diff([]int{200, 0, 197, 3, 0}, counts(b)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	applied := must[control.BulkApplications](t)(w.BulkApplications(t.Context(), w.eng(), b.ID))
	if want := (control.BulkApplications{Pending: 197}); applied != want {
		t.Errorf("applications %+v, want %+v", applied, want)
	}
	var failed []string
	for i, r := range w.bulkRows(w.eng(), b.ID) {
		if r.RunID != ids[i] || r.Receipt == nil || r.Receipt.Reason != "release" || r.Receipt.Actor != "dev-engineer" || r.At == nil {
			t.Fatalf("row %d is %+v", i, r)
		}
		if r.Failed() {
			failed = append(failed, fmt.Sprintf("%d %s %s", r.No, r.Outcome, r.Receipt.Rejection))
		}
	}
	if diff := cmp.Diff([]string{"8 REJECTED RUN_TERMINAL", "78 REJECTED RUN_TERMINAL", "178 REJECTED RUN_TERMINAL"}, failed); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	again := w.bulk(w.eng(), bulkOf("b2", 3, control.BulkRuns{FailedOf: b.ID}))
	again = w.bulkDone(w.eng(), again.ID)
	if diff := cmp.Diff([]int{3, 0, 0, 3, 0}, counts(again)); diff != "" {
		t.Errorf("counts of the second bulk (-want +got):\n%s", diff)
	}
	if n := w.count(ids[0], run.SignalAccepted); n != 1 {
		t.Errorf("%d signals were accepted by a run that had not failed", n)
	}
	for _, row := range []string{"dev-engineer SIGNAL_RUNS ACCEPTED", "dev-engineer PAUSE ACCEPTED  " + ids[0], "dev-engineer PAUSE REJECTED RUN_TERMINAL " + ids[7]} {
		if !w.audited("acme", row) {
			t.Errorf("no audit row %q", row)
		}
	}
}

// The server dies after signals were accepted and before that was kept: another one goes on, and each run has one signal.
func TestBulk_T128_CrashInTheMiddleHasOneEffect(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(40)
	ctx, kill := context.WithCancel(t.Context())
	f.settle = func() error {
		if f.dead.Load() {
			kill()
			return errDead
		}
		f.dead.Store(true) // the next round is sent, and that is not kept
		return nil
	}
	b := w.bulk(w.eng(), bulkOf("b1", 40, control.BulkRuns{IDs: ids}))
	must[struct{}](t)(struct{}{}, w.SendBulks(ctx, "first"))
	known := 0
	for _, id := range ids {
		known += w.count(id, run.SignalAccepted)
	}
	if now := must[control.Bulk](t)(w.Bulk(t.Context(), w.eng(), b.ID)); now.Accepted != 16 || known != 32 {
		t.Fatalf("%d rows are accepted and %d signals, want 16 and 32: the crash came at another moment", now.Accepted, known)
	}
	// What was accepted before the crash stays so, also when the asker could not do it now.
	w.directory.SetGrants("acme", "dev-engineer", nil)
	must[struct{}](t)(struct{}{}, w.authz.Swap(authz.DefaultPolicy()))
	f.settle = nil
	f.dead.Store(false)
	second := control.New(w.config)
	w.spawn(func(ctx context.Context) error { return second.SendBulks(ctx, "second") })
	b = w.bulkDone(w.eng(), b.ID)
	if diff := cmp.Diff([]int{40, 0, 32, 0, 8}, counts(b)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for i, id := range ids {
		if n, want := w.count(id, run.SignalAccepted), 1; i < 32 && n != want || i >= 32 && n != 0 {
			t.Errorf("run %d accepted %d signals", i, n)
		}
	}
}

func TestBulk_TwoServersSendEachOnce(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.many(60)
	var bulks []control.Bulk
	for i := range 3 {
		bulks = append(bulks, w.bulk(w.eng(), bulkOf(fmt.Sprint("b", i), 20, control.BulkRuns{IDs: ids[20*i : 20*i+20]})))
	}
	for _, s := range []*control.Service{w.Service, control.New(w.config), control.New(w.config)} {
		w.spawn(func(ctx context.Context) error { return s.SendBulks(ctx, fmt.Sprintf("%p", s)) })
	}
	for _, b := range bulks {
		if diff := cmp.Diff([]int{20, 0, 20, 0, 0}, counts(w.bulkDone(w.eng(), b.ID))); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	}
	for _, id := range ids {
		if n := w.count(id, run.SignalAccepted); n != 1 {
			t.Errorf("%s accepted %d signals", id, n)
		}
	}
}

// after calls do before the n-th call.
func after(n int, do func()) func() error {
	var mu sync.Mutex
	calls := 0
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls == n {
			do()
		}
		return nil
	}
}

func TestBulk_T178_RightsThatAreLostInTheMiddle(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(64)
	f.inRun = after(20, func() {
		w.directory.SetGrants("acme", "dev-operator", []authz.Grant{{Role: authz.Viewer, ProjectID: "*", EnvironmentID: "*"}})
		if err := w.authz.Swap(authz.DefaultPolicy()); err != nil {
			t.Error(err)
		}
	})
	who := w.who("dev-operator")
	b := w.bulk(who, bulkOf("b1", 64, control.BulkRuns{IDs: ids}))
	w.sends()
	b = w.bulkDone(who, b.ID)
	if b.Accepted == 0 || b.Refused < 30 || b.Accepted+b.Refused != 64 {
		t.Errorf("counts %v", counts(b))
	}
	for _, r := range w.bulkRows(who, b.ID) {
		if r.Outcome == store.BulkRefused && (r.Code != run.CodeForbidden || r.Message == "" || r.Receipt != nil) {
			t.Errorf("row %+v", r)
		}
		if r.Outcome == store.BulkRefused && w.count(r.RunID, run.SignalRejected) != 0 {
			t.Errorf("a refusal of the bulk is in the log of %s", r.RunID)
		}
	}
	if !w.audited("acme", "dev-operator PAUSE DENIED FORBIDDEN") {
		t.Error("no audit row of the denials")
	}
}

// A token that is revoked, or has expired, sends nothing more; nor does the account of a principal that has gone.
func TestBulk_T178_TheAskerMustStillBeGood(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, tokenID string){
		"revoked": func(w *world, tokenID string) {
			_, err := w.RevokeToken(w.t.Context(), w.eng(), control.RevokeToken{RequestID: "r1", ID: tokenID, Reason: "lost"})
			must[struct{}](w.t)(struct{}{}, err)
		},
		"expired": func(w *world, _ string) { w.clock.advance(2 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, f := bulkWorld(t)
			must[struct{}](t)(struct{}{}, w.LoadPolicy(t.Context()))
			w.spawn(w.FollowPolicy)
			ids := w.many(48)
			made := must[control.CreatedToken](t)(w.CreateToken(t.Context(), w.eng(), control.CreateToken{
				RequestID: "t1", Name: "ci", Grants: []authz.Grant{{Role: authz.Operator, ProjectID: "*", EnvironmentID: "*"}}, ExpiresAt: w.clock.now().Add(time.Hour),
			}))
			p := must[authz.Principal](t)(w.authz.Authenticate(made.Secret))
			b := w.bulk(p, bulkOf("b1", 48, control.BulkRuns{IDs: ids}))
			f.inRun = after(17, func() { end(w, made.Token.ID) })
			w.sends()
			b = w.bulkDone(w.eng(), b.ID) // the same principal
			if b.Accepted < 16 || b.Refused < 16 || b.Accepted+b.Refused != 48 {
				t.Errorf("counts %v", counts(b))
			}
			if rows := w.bulkRows(w.eng(), b.ID); rows[47].Code != run.CodeForbidden {
				t.Errorf("the last row is %+v", rows[47])
			}
		})
	}
}

// Who came with neither token nor session is good for as long as what they came with said.
func TestBulk_T178_AnAskerWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids, p := w.many(40), w.who("dev-operator")
	p.ExpiresAt = w.clock.now().Add(time.Hour)
	b := w.bulk(p, bulkOf("b1", 40, control.BulkRuns{IDs: ids}))
	f.inRun = after(17, func() { w.clock.advance(2 * time.Hour) })
	w.sends()
	if b = w.bulkDone(p, b.ID); b.Refused < 8 || b.Accepted+b.Refused != 40 {
		t.Errorf("counts %v", counts(b))
	}
}

// What may not be sent yet waits, the others do not, and the bulk says why.
func TestBulk_T96_TheLimitOfARunHoldsBackThatRunAlone(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t, func(c *control.Config) { c.Limits.SignalsPerMinute = 1 })
	ids := w.many(40)
	w.send(w.eng(), signal(ids[3], "first", run.Resume))
	b := w.bulk(w.eng(), bulkOf("b1", 40, control.BulkRuns{IDs: ids}))
	w.sends()
	eventually(t, "all but one are sent", func() bool {
		b = must[control.Bulk](t)(w.Bulk(t.Context(), w.eng(), b.ID))
		return b.Accepted == 39
	})
	eventually(t, "the bulk says that it is paced", func() bool {
		b = must[control.Bulk](t)(w.Bulk(t.Context(), w.eng(), b.ID))
		return b.State() == "PACED" && b.Paced == run.CodeSignalRate && b.PacedUntil != nil
	})
	for range 3 { // it is looked at again each half minute at the latest
		w.clock.advance(31 * time.Second)
		time.Sleep(700 * time.Millisecond)
	}
	b = w.bulkDone(w.eng(), b.ID)
	if diff := cmp.Diff([]int{40, 0, 40, 0, 0}, counts(b)); diff != "" || b.Paced != "" {
		t.Errorf("paced %q, counts (-want +got):\n%s", b.Paced, diff)
	}
}

// What the quota of the tenant lets through goes through, and the rest when there is more.
func TestBulk_T96_TheQuotaOfTheTenantPacesIt(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t, withQuotas(hobby(func(q *control.Quotas) {
		tier := q.Tiers["hobby"] // 20 signals a minute
		tier.StartRunPerMinute = 600
		q.Tiers["hobby"] = tier
	})))
	ids := w.many(40)
	b := w.bulk(w.eng(), bulkOf("b1", 40, control.BulkRuns{IDs: ids}))
	w.sends()
	eventually(t, "the quota is used up", func() bool {
		b = must[control.Bulk](t)(w.Bulk(t.Context(), w.eng(), b.ID))
		return b.State() == "PACED" && b.Accepted >= 20
	})
	if b.Paced != run.CodeSignalRate || b.Accepted > 30 || b.Rejected+b.Refused != 0 {
		t.Errorf("paced by %s, counts %v", b.Paced, counts(b))
	}
	for b.State() != "DONE" {
		w.clock.advance(10 * time.Second)
		time.Sleep(600 * time.Millisecond)
		b = must[control.Bulk](t)(w.Bulk(t.Context(), w.eng(), b.ID))
	}
	if diff := cmp.Diff([]int{40, 0, 40, 0, 0}, counts(b)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// The store goes away in the middle and comes back.
func TestBulk_TheStoreThatIsAwayInTheMiddle(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(40)
	var back atomic.Pointer[time.Time]
	away := func() error {
		if at := back.Load(); at != nil && time.Now().Before(*at) {
			return store.ErrUnavailable
		}
		return nil
	}
	goes := after(20, func() { back.Store(new(time.Now().Add(300 * time.Millisecond))) })
	f.inRun = func() error { return errors.Join(goes(), away()) }
	f.settle = away
	b := w.bulk(w.eng(), bulkOf("b1", 40, control.BulkRuns{IDs: ids}))
	w.sends()
	b = w.bulkDone(w.eng(), b.ID)
	if diff := cmp.Diff([]int{40, 0, 40, 0, 0}, counts(b)); diff != "" || back.Load() == nil {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for _, id := range ids {
		if n := w.count(id, run.SignalAccepted); n != 1 {
			t.Errorf("%s accepted %d signals", id, n)
		}
	}
}

func TestBulk_WhichRunsAreMeantIsFixedAndCounted(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids, ctx, eng := w.many(6), t.Context(), w.eng()
	running := control.BulkRuns{Filter: &control.RunFilter{Statuses: []run.Status{run.Running}}}
	eventually(t, "the list has them", func() bool {
		return w.previewOf(eng, bulkOf("", 0, running)).Bulk.Count == 6
	})
	_, err := w.SignalRuns(ctx, eng, bulkOf("b1", 5, running))
	if e := refusal(t, err, run.CodeBulkMoved); e.Count != 6 {
		t.Errorf("the refusal says %d", e.Count)
	}
	if !w.audited("acme", "dev-engineer SIGNAL_RUNS REJECTED BULK_MOVED") {
		t.Error("no audit row of the refusal")
	}
	made := must[control.MadeBulk](t)(w.SignalRuns(ctx, eng, bulkOf("b1", 6, running)))
	w.sends()
	b := w.bulkDone(eng, made.Bulk.ID)
	later := w.queued("later", "a") // it was not there when the bulk was made
	w.handOver()
	w.append(later, runtest.Start())
	again := must[control.MadeBulk](t)(w.SignalRuns(ctx, eng, bulkOf("b1", 6, running)))
	if !again.Duplicate || again.Bulk.ID != b.ID || again.Bulk.Total != 6 || made.Duplicate {
		t.Errorf("again: %+v", again)
	}
	for name, in := range map[string]control.SignalRuns{"runs": bulkOf("b1", 1, control.BulkRuns{IDs: ids[:1]}), "reason": func() control.SignalRuns {
		in := bulkOf("b1", 6, running)
		in.Reason = "another"
		return in
	}()} {
		if _, err := w.SignalRuns(ctx, eng, in); name != "" {
			refusal(t, err, run.CodeRequestConflict)
		}
	}
	for _, bad := range []control.SignalRuns{
		bulkOf("b 2", 1, running), bulkOf("b2", 0, running), bulkOf("b2", 1, control.BulkRuns{}), bulkOf("b2", 1, control.BulkRuns{IDs: ids, Filter: running.Filter}),
		{RequestID: "b2", Runs: running, ExpectedCount: 1, Signal: bulkOf("", 0, running).Signal},
		{RequestID: "b2", Runs: running, ExpectedCount: 1, Reason: "r", Signal: control.SignalRun{Signal: run.Signal{Type: run.RetryStep}}},
	} {
		_, err := w.SignalRuns(ctx, eng, bad)
		refusal(t, err, run.CodeBadInput)
	}
	large := bulkOf("b2", 1, running)
	large.Signal.Payload = json.RawMessage(`{"reason":"` + strings.Repeat("x", 70_000) + `"}`)
	_, err = w.SignalRuns(ctx, eng, large)
	refusal(t, err, run.CodeSignalTooLarge)
	_, err = w.SignalRuns(ctx, eng, bulkOf("b2", control.MaxBulk+1, control.BulkRuns{IDs: make([]string, control.MaxBulk+1)}))
	if e := refusal(t, err, run.CodeBulkTooLarge); e.Limit != control.MaxBulk || !strings.Contains(e.Message, "5001") {
		t.Errorf("refusal %+v", e)
	}
}

// What one may not READ is never in one's bulk, and a bulk is its asker's alone.
func TestBulk_T101_NothingOfOthers(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids, ctx := w.many(2), t.Context()
	foreign := must[control.StartedRun](t)(w.StartRun(ctx, w.eng(), startOf("other", document(M{"scope.projectId": "store"}, "a")))).View.Run.RunID
	narrow := w.who("shop-viewer")
	named := control.BulkRuns{IDs: []string{ids[0], foreign, "unknown", ids[1], ids[0]}}
	whole := w.previewOf(narrow, bulkOf("", 0, named))
	p := whole.Bulk
	if whole.Outcome != "REFUSED" || whole.Code != run.CodeForbidden || p.Count != 2 || len(p.Excluded) != 1 || p.Excluded[0].Count != 2 || p.Excluded[0].Code != run.CodeNotFound {
		t.Errorf("preview %+v", p)
	}
	if len(p.Refusals) != 1 || p.Refusals[0].Code != run.CodeForbidden || p.Refusals[0].Count != 2 || len(p.Samples) != 2 || p.Samples[0].Preview.Outcome != "REFUSED" {
		t.Errorf("preview %+v", p)
	}
	b := w.bulk(narrow, bulkOf("b1", 2, named))
	for _, r := range w.bulkRows(narrow, b.ID) {
		if r.RunID == foreign {
			t.Error("a run that its asker may not read is in the bulk")
		}
	}
	if a := w.previewOf(w.eng(), bulkOf("", 0, named)); a.Outcome != "APPLY" {
		t.Errorf("preview of one who may %+v", a)
	} else if p := a.Bulk; p.Count != 3 || p.Samples[0].Preview.Outcome != "APPLY" || p.Samples[0].Status != run.Running {
		t.Errorf("preview of one who may %+v", p)
	}
	for _, other := range []authz.Principal{w.eng(), w.who("dev-mallory"), {ID: narrow.ID, TenantID: "globex"}} {
		_, err := w.Bulk(ctx, other, b.ID)
		mine := refusal(t, err, run.CodeNotFound)
		_, err = w.Bulk(ctx, other, "00000000-0000-4000-8000-000000000000")
		if diff := cmp.Diff(mine.Message, refusal(t, err, run.CodeNotFound).Message); diff != "" {
			t.Errorf("another's and none (-want +got):\n%s", diff)
		}
		_, err = w.BulkRows(ctx, other, control.BulkRowsQuery{BulkID: b.ID})
		refusal(t, err, run.CodeNotFound)
		_, err = w.BulkApplications(ctx, other, b.ID)
		refusal(t, err, run.CodeNotFound)
		_, err = w.WatchBulk(ctx, other, b.ID)
		refusal(t, err, run.CodeNotFound)
		_, err = w.SignalRuns(ctx, other, bulkOf("b9", 1, control.BulkRuns{FailedOf: b.ID}))
		refusal(t, err, run.CodeNotFound)
		if page := must[control.BulksPage](t)(w.Bulks(ctx, other, 10, "")); len(page.Bulks) != 0 {
			t.Errorf("%s sees %d bulks", other.ID, len(page.Bulks))
		}
	}
	if page := must[control.BulksPage](t)(w.Bulks(ctx, narrow, 10, "")); len(page.Bulks) != 1 || page.Bulks[0].ID != b.ID {
		t.Errorf("the asker sees %+v", page)
	}
	_, err := w.SignalRuns(ctx, w.who("nobody"), bulkOf("b1", 1, control.BulkRuns{Filter: &control.RunFilter{}}))
	refusal(t, err, run.CodeForbidden)
	_, err = w.SignalRun(ctx, w.eng(), signal(ids[0], store.BulkSignalID(b.ID, 1), run.Pause)) // nobody takes a row's place
	refusal(t, err, run.CodeBadInput)
	// A receipt is shown as long as its run may be read.
	seer := w.who("two-viewer")
	own := w.bulk(seer, bulkOf("b1", 2, control.BulkRuns{IDs: ids}))
	w.sends()
	w.bulkDone(seer, own.ID)
	if rows := w.bulkRows(seer, own.ID); rows[0].Receipt == nil {
		t.Errorf("row %+v", rows[0])
	}
	w.directory.SetGrants("acme", "two-viewer", []authz.Grant{{Role: authz.Viewer, ProjectID: "store", EnvironmentID: "*"}})
	must[struct{}](t)(struct{}{}, w.authz.Swap(authz.DefaultPolicy()))
	if rows := w.bulkRows(seer, own.ID); rows[0].Receipt != nil {
		t.Errorf("the receipt of a run that may no longer be read: %+v", rows[0])
	}
}

func TestBulk_OpenOnesAreBounded(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.many(1)
	for i := range 5 {
		w.bulk(w.eng(), bulkOf(fmt.Sprint("b", i), 1, control.BulkRuns{IDs: ids}))
	}
	_, err := w.SignalRuns(t.Context(), w.eng(), bulkOf("b5", 1, control.BulkRuns{IDs: ids}))
	if e := refusal(t, err, run.CodeTooManyBulks); e.RetryAfter <= 0 {
		t.Errorf("refusal %+v", e)
	}
	w.bulk(w.who("dev-operator"), bulkOf("b5", 1, control.BulkRuns{IDs: ids}))
}

// First the state, then rows as they change, a receipt that moves included; honest when the store is away; over when the rights are.
func TestBulk_T178_Watch(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids, who := w.many(20), w.eng()
	in := bulkOf("b1", 20, control.BulkRuns{IDs: ids})
	in.Signal = signal("", "", run.Cancel)
	b := w.bulk(who, in)
	s := must[control.Stream[control.BulkFrame]](t)(w.WatchBulk(t.Context(), who, b.ID))
	defer s.Close()
	first := take(t, s, "the first frame", func(control.BulkFrame) bool { return true })
	if !first.Reset || first.Sync != live.Live || len(first.Rows) != 0 || first.Bulk.Waiting() != 20 || first.Bulk.Applications == nil {
		t.Errorf("first frame %+v", first)
	}
	w.sends()
	seen := map[int]bool{}
	take(t, s, "all rows", func(f control.BulkFrame) bool {
		if f.Reset {
			t.Error("a second reset")
		}
		for _, r := range f.Rows {
			seen[r.No] = true
		}
		return f.Bulk.State() == "DONE" && len(seen) == 20
	})
	must[store.Appended](t)(w.journal.Append(t.Context(), store.Append{
		RunID: ids[4], Outcomes: []store.SignalOutcome{{SignalID: store.BulkSignalID(b.ID, 5), Application: run.SignalNotApply, AppliedBy: -1}},
	}))
	moved := take(t, s, "the receipt that moved", func(f control.BulkFrame) bool { return len(f.Rows) > 0 })
	if len(moved.Rows) != 1 || moved.Rows[0].No != 5 || !moved.Rows[0].Failed() || moved.Bulk.Applications.NotApplied != 1 {
		t.Errorf("frame %+v", moved)
	}
	f.down.Store(true)
	stale := take(t, s, "STALE", func(f control.BulkFrame) bool { return f.Sync == live.Stale })
	if stale.Reason != live.StoreDown || stale.Bulk.ID != b.ID || stale.AsOf.After(w.clock.now()) {
		t.Errorf("stale frame %+v", stale)
	}
	f.down.Store(false)
	take(t, s, "LIVE again", func(f control.BulkFrame) bool { return f.Sync == live.Live })
	take(t, s, "a quiet frame", func(f control.BulkFrame) bool { return len(f.Rows) == 0 })
	w.directory.SetGrants("acme", who.ID, nil)
	must[struct{}](t)(struct{}{}, w.authz.Swap(authz.DefaultPolicy()))
	for {
		_, err := s.Next(t.Context())
		if err != nil {
			refusal(t, err, run.CodeForbidden)
			break
		}
	}
}
