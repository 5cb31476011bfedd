package graph_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// world serves the API on the real use cases, hub and store.
type world struct {
	t         *testing.T
	store     *sqlite.Store
	counted   *counter
	directory *authz.Directory
	rights    *authz.Authorizer
	service   *usecases.UseCases
	*graph.Handler
}

// accounts are the accounts of a world. Each starts without rights. eve belongs to another tenant than the others.
var accounts = []string{"ada", "bob", "cy", "di", "eve"}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	check := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.store, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	check()
	t.Cleanup(func() { w.store.Close() })
	err = w.store.PutPlan(t.Context(), planSHA(), []byte(thePlan))
	check()
	w.counted = &counter{next: w.store}
	var all []authz.Account
	for i, id := range accounts {
		all = append(all, authz.Account{ID: id, TenantID: tenantOf(id), TokenSHA256: strings.Repeat(fmt.Sprint(i), 64)})
	}
	w.directory, err = authz.NewDirectory(all, time.Now)
	check()
	w.rights, err = authz.New(authz.DefaultPolicy(), w.directory)
	check()
	hub := live.New(w.store, quietBus{}, live.Config{})
	lists := live.NewLists(w.store, quietBus{}, live.ListsConfig{})
	w.service = usecases.New(usecases.Config{Store: w.counted, Hub: hub, Lists: lists, Bus: quietBus{}, Authz: w.rights})
	w.Handler = graph.NewHandler(w.service, graph.Config{Limits: quietLimits})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{}, 2)
	go func() { _ = hub.Run(ctx); ended <- struct{}{} }()
	go func() { _ = lists.Run(ctx); ended <- struct{}{} }()
	t.Cleanup(func() { stop(); <-ended; <-ended })
	return w
}

func tenantOf(id string) string {
	if id == "eve" {
		return "globex"
	}
	return "acme"
}

// who returns the principal of an account with its current rights.
func (w *world) who(id string) authz.Principal {
	grants, _ := w.directory.Grants(tenantOf(id), id)
	return authz.Principal{ID: id, TenantID: tenantOf(id), Grants: grants}
}

func (w *world) grant(id string, grants ...authz.Grant) {
	w.directory.SetGrants(tenantOf(id), id, grants)
	w.swap(authz.DefaultPolicy())
}

func (w *world) swap(rules []authz.Rule) {
	w.t.Helper()
	if err := w.rights.Swap(rules); err != nil {
		w.t.Fatal(err)
	}
}

// add stores a run with a log, and its projection.
func (w *world) add(id run.Identity, log []run.Event, receipts ...run.SignalReceipt) {
	w.t.Helper()
	for i := range log {
		log[i].Identity = id
		log[i].EventID = fmt.Sprintf("00000000-0000-4000-8000-%012x", i)
	}
	created := store.Run{
		Identity: id, RequestKey: run.Key("k" + id.RunID), RequestID: "q" + id.RunID, CreatedAt: log[0].PersistedAt,
		PlanRef: plan.Ref{SHA256: planSHA(), SchemaVersion: "v1.2", PlanID: id.PlanID, PlanVersion: id.PlanVersion},
	}
	if err := w.store.Import(w.t.Context(), store.NewRun{Run: created, Receipts: receipts}, log); err != nil {
		w.t.Fatal(err)
	}
	l, err := w.store.Load(w.t.Context(), id.RunID)
	if err != nil {
		w.t.Fatal(err)
	}
	all := run.Changes{Header: true}
	for _, s := range l.State.Steps {
		all.Steps = append(all.Steps, s.Ord)
	}
	if _, err := w.store.Save(w.t.Context(), l.State, all); err != nil {
		w.t.Fatal(err)
	}
}

// thePlan is the plan document of all runs of a world.
const thePlan = `{"schemaVersion":"v1.2","metadata":{"planId":"nightly","planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z","createdBy":"test",
	"schemaVersion":"v1.2"},"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev","repoSha":"0000000000000000000000000000000000000000"},
	"steps":[{"stepId":"s0","type":"MANUAL","inputs":{"instructions":"Look."},"timeout":"1m"}]}`

func planSHA() string {
	sum := sha256.Sum256([]byte(thePlan))
	return hex.EncodeToString(sum[:])
}

func runIdentity(runID, tenant, project, environment string) run.Identity {
	id := identity(runID)
	id.TenantID, id.ProjectID, id.EnvironmentID = tenant, project, environment
	return id
}

// quietBus is a bus that is always up and delivers no messages.
type quietBus struct{ live.Bus }

func (quietBus) Subscribe(string) live.Subscription { return confirmedSubscription() }

func (quietBus) SubscribeList(string, string) live.Subscription { return confirmedSubscription() }

func (quietBus) Up() bool { return true }

type quietSubscription chan live.Delivery

func confirmedSubscription() live.Subscription {
	c := make(quietSubscription, 1)
	c <- live.Delivery{Confirmed: true}
	return c
}

func (c quietSubscription) C() <-chan live.Delivery { return c }

func (quietSubscription) Close() {}

// counter counts the calls of a store. It implements only the methods that queries use. The others panic, so that
// no call is missed.
type counter struct {
	store.Store
	next  *sqlite.Store
	mu    sync.Mutex
	calls map[string]int
}

func (c *counter) reset() { c.calls = map[string]int{} }

func (c *counter) count(call string) *sqlite.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls != nil {
		c.calls[call]++
	}
	return c.next
}

func (c *counter) Get(ctx context.Context, runID string) (store.Run, error) {
	return c.count("Get").Get(ctx, runID)
}

func (c *counter) List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error) {
	return c.count("List").List(ctx, f)
}

func (c *counter) ListPlans(ctx context.Context, f store.PlanFilter) ([]store.PlanRow, error) {
	return c.count("ListPlans").ListPlans(ctx, f)
}

func (c *counter) PlanRuns(ctx context.Context, k store.PlanKey, limit int) ([]store.PlanRun, error) {
	return c.count("PlanRuns").PlanRuns(ctx, k, limit)
}

func (c *counter) StepEvents(ctx context.Context, tenantID, stepID string, runIDs []string) ([]run.Event, error) {
	return c.count("StepEvents").StepEvents(ctx, tenantID, stepID, runIDs)
}

func (c *counter) Load(ctx context.Context, runID string) (store.Loaded, error) {
	return c.count("Load").Load(ctx, runID)
}

func (c *counter) Epoch(ctx context.Context) (string, error) {
	return c.count("Epoch").Epoch(ctx)
}

func (c *counter) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	return c.count("Events").Events(ctx, runID, after, limit)
}

func (c *counter) EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error) {
	return c.count("EventsBefore").EventsBefore(ctx, runID, before, limit)
}

func (c *counter) Heads(ctx context.Context, runIDs []string) (store.Heads, error) {
	return c.count("Heads").Heads(ctx, runIDs)
}

func (c *counter) QueueRow(ctx context.Context, runID string) (store.QueueRow, error) {
	return c.count("QueueRow").QueueRow(ctx, runID)
}

func (c *counter) After(ctx context.Context, runID string, no int64) ([]run.SignalReceipt, error) {
	return c.count("After").After(ctx, runID, no)
}

func (c *counter) Receipts(ctx context.Context, runID, afterSignalID string, limit int) ([]run.SignalReceipt, error) {
	return c.count("Receipts").Receipts(ctx, runID, afterSignalID, limit)
}

func (c *counter) ReceiptsOf(ctx context.Context, f store.SenderFilter) ([]run.SignalReceipt, error) {
	return c.count("ReceiptsOf").ReceiptsOf(ctx, f)
}

func (c *counter) FindArchived(ctx context.Context, runIDs ...string) ([]store.ArchivedRun, error) {
	return c.count("FindArchived").FindArchived(ctx, runIDs...)
}

func (c *counter) ListWaits(ctx context.Context, f store.WaitFilter) ([]store.Wait, error) {
	return c.count("Waiting").ListWaits(ctx, f)
}

func (c *counter) ApprovalsOf(ctx context.Context, runIDs []string) ([]store.Approval, error) {
	return c.count("ApprovalsOf").ApprovalsOf(ctx, runIDs)
}

func (c *counter) OpenApprovals(ctx context.Context, f store.ApprovalFilter) ([]store.Approval, error) {
	return c.count("OpenApprovals").OpenApprovals(ctx, f)
}

func (c *counter) Plan(ctx context.Context, sha256 string) ([]byte, error) {
	return c.count("Plan").Plan(ctx, sha256)
}

func (c *counter) Audit(ctx context.Context, rows ...store.AuditRow) error {
	return c.count("Audit").Audit(ctx, rows...)
}
