package watch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// staffed makes a world whose project shop needs two approvals and that can complete tasks.
func staffed(t *testing.T, change ...func(*usecases.Config)) *world {
	t.Helper()
	w := newWorld(t, append(change, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))...)
	w.ChangePolicy(func(d *authz.Document) {
		d.Approvals = []authz.Approval{{ProjectID: "shop", EnvironmentID: "*", Required: 2}}
		for _, id := range []string{"dev-admin", "dev-engineer", "dev-operator"} {
			d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: id, Role: authz.Planner, ProjectID: "*",
				EnvironmentID: "*"})
		}
	})
	return w
}

func (w *world) inboxCount(p authz.Principal) int {
	w.T.Helper()
	return controltest.Must[int](w.T)(w.InboxCount(w.T.Context(), p))
}

// ask makes a run that waits for approval.
func (w *world) ask(p authz.Principal, requestID string) string {
	w.T.Helper()
	return controltest.Must[runs.StartedRun](w.T)(
		w.StartRun(w.T.Context(), p, controltest.StartOf(requestID, controltest.Document(nil, "s1")))).View.Run.RunID
}

func (w *world) inbox(p authz.Principal) control.Stream[watch.InboxFrame] {
	w.T.Helper()
	s := controltest.OpenStream[watch.InboxFrame](w.T)(w.WatchInbox(w.T.Context(), p))
	// While the store takes more than its 2 s, the first frame has no count.
	f := controltest.TakeFrame(w.T, s, "the first frame", func(f watch.InboxFrame) bool {
		return f.Sync == live.Live || f.Count != nil ||
			!f.AsOf.IsZero()
	})
	if !f.Reset || f.Count == nil || f.Sync != live.Live || f.AsOf.IsZero() {
		w.T.Fatalf("the first frame is %+v, want a LIVE reset with a count", f)
	}
	return s
}

// formatFrame returns a frame as "count: changed… -removed…", each item as run/step, with * when the viewer may decide
// it.
func formatFrame(f watch.InboxFrame) string {
	out := "?:"
	if f.Count != nil {
		out = fmt.Sprintf("%d:", *f.Count)
	}
	for _, i := range f.Changed {
		out += " " + i.RunID + "/" + i.StepID
		if i.Yours {
			out += "*"
		}
	}
	for _, i := range f.Removed {
		out += " -" + i.RunID + "/" + i.StepID
	}
	return out
}

// tells waits until the stream has told the changes in want, in one frame or in several.
func (w *world) tells(s control.Stream[watch.InboxFrame], want string) {
	w.T.Helper()
	began := time.Now()
	var all watch.InboxFrame
	controltest.TakeFrame(w.T, s, want, func(f watch.InboxFrame) bool {
		if !f.Reset && len(f.Changed)+len(f.Removed) == 0 {
			return false
		}
		all.Count, all.Changed, all.Removed = f.Count, append(all.Changed, f.Changed...), append(all.Removed, f.Removed...)
		return strings.Count(formatFrame(all), " ") >= strings.Count(want, " ")
	})
	slices.SortFunc(all.Changed, func(a, b watch.InboxItem) int { return strings.Compare(a.StepID, b.StepID) })
	if got := formatFrame(all); got != want {
		w.T.Fatalf("the frames are %q, want %q", got, want)
	}
	if took := time.Since(began); took > testtime.Of(4*time.Second) {
		w.T.Errorf("%s came after %s: nothing woke it", want, took)
	}
}

// An inbox counts the items that its viewer may decide now, and sends changes at once. Each viewer has an inbox of its
// own.
// contract: W-20, T201
func TestInbox_CountsWhatTheViewerMayDecide(t *testing.T) {
	t.Parallel()
	w := staffed(t)
	operator, admin, viewer := w.Principal("dev-operator"), w.Principal("dev-admin"), w.Principal("dev-viewer")
	ofOperator, ofAdmin, ofViewer := w.inbox(operator), w.inbox(admin), w.inbox(viewer)

	id := w.ask(operator, "i1")
	w.tells(ofAdmin, "1: "+id+"/*")
	w.tells(ofOperator, "0: "+id+"/") // asked for it
	w.tells(ofViewer, "0: "+id+"/")   // has no right
	for p, want := range map[string]int{"dev-admin": 1, "dev-operator": 0, "dev-viewer": 0, "nobody": 0} {
		if got := w.inboxCount(w.Principal(p)); got != want {
			t.Errorf("%s has %d in the inbox, want %d", p, got, want)
		}
	}
	if got := w.inboxCount(w.ForeignPrincipal()); got != 0 {
		t.Errorf("another tenant has %d items in the inbox, want none", got)
	}

	controltest.Must[control.RunView](t)(w.ApproveRun(t.Context(), admin, controltest.ApprovalOf(id, "a1")))
	w.tells(ofAdmin, "0: "+id+"/") // has decided
	controltest.Must[control.RunView](t)(w.ApproveRun(t.Context(), w.Engineer(), controltest.ApprovalOf(id, "a2")))
	w.tells(ofAdmin, "0: -"+id+"/")

	w.ChangePolicy(func(d *authz.Document) { d.Approvals = nil })
	task := w.CreateManual("i2", "look", "see-any") // asked for by the engineer
	w.tells(ofAdmin, "2: "+task+"/look* "+task+"/see-any*")
	if got := w.inboxCount(w.Engineer()); got != 1 {
		t.Errorf("who asked for the run has %d tasks, want the one that anybody may complete", got)
	}
	rc := controltest.Must[runs.SignalReceipt](t)(w.CompleteTask(admin, w.TaskOf(admin, task, "see-any", 1),
		run.ManualSucceeded))
	w.ApplyCompletion(rc, run.StepCompletedEvent)
	w.tells(ofAdmin, "1: -"+task+"/see-any")
}

// countedStore counts the reads of inboxes and can fail them.
type countedStore struct {
	store.Store
	waits chan struct{}
	err   func() error
}

func (c *countedStore) ListWaits(ctx context.Context, f store.WaitFilter) ([]store.Wait, error) {
	select {
	case c.waits <- struct{}{}:
	default:
	}
	return c.Store.ListWaits(ctx, f)
}

func (c *countedStore) Heads(ctx context.Context, ids []string) (store.Heads, error) {
	if err := c.err(); err != nil {
		return store.Heads{}, err
	}
	return c.Store.Heads(ctx, ids)
}

// Many viewers of a scope cost as many reads as one. The stream says when the store does not answer, and when it does
// again.
func TestInbox_SharesItsReadsAndSaysWhenTheStoreIsDown(t *testing.T) {
	t.Parallel()
	counted := &countedStore{waits: make(chan struct{}, 1000)}
	down := make(chan error, 1)
	down <- nil
	counted.err = func() error { err := <-down; down <- err; return err }
	w := staffed(t, func(c *usecases.Config) { counted.Store, c.Store = c.Store, counted })
	var streams []control.Stream[watch.InboxFrame]
	for i := range 50 {
		streams = append(streams, w.inbox(w.Principal([]string{"dev-admin", "dev-viewer"}[i%2])))
	}
	time.Sleep(2 * time.Second) // the reads that the policy change caused are over
	for len(counted.waits) > 0 {
		<-counted.waits
	}
	began := time.Now()
	id := w.ask(w.Principal("dev-operator"), "i1")
	for i, s := range streams {
		w.tells(s, []string{"1: " + id + "/*", "0: " + id + "/"}[i%2])
	}
	// Two scopes read for two notifications each, and otherwise at most once a second, whatever the number of viewers.
	if n, most := len(counted.waits), 4+2*int(time.Since(began)/time.Second); n > most {
		t.Errorf("%d looks for one change and 50 viewers, want at most %d", n, most)
	}

	<-down
	down <- store.ErrUnavailable
	f := controltest.TakeFrame(t, streams[0], "STALE", func(f watch.InboxFrame) bool { return f.Sync == live.Stale })
	if f.Reason != live.StoreDown || f.Count == nil || *f.Count != 1 {
		t.Errorf("the frame is %s %s: %s, want STALE for STORE_DOWN with the last count", f.Sync, f.Reason, formatFrame(f))
	}
	// Another scope, which has not been read yet.
	late := controltest.OpenStream[watch.InboxFrame](t)(w.WatchInbox(t.Context(), w.Principal("shop-viewer")))
	if f := controltest.TakeFrame(t, late, "a first frame",
		func(watch.InboxFrame) bool { return true }); f.Sync != live.Stale ||
		f.Count != nil || !f.AsOf.IsZero() {
		t.Errorf("the first frame without a store is %+v, want no count", f)
	}
	<-down
	down <- nil
	controltest.TakeFrame(t, streams[0], "LIVE", func(f watch.InboxFrame) bool { return f.Sync == live.Live })
	controltest.TakeFrame(t, late, "its first look", func(f watch.InboxFrame) bool {
		return f.Reset && f.Sync == live.Live &&
			f.Count != nil
	})
}

// A viewer whose rights change gets the inbox again with Reset.
// contract: T178
func TestInbox_ChangedRightsSendTheInboxAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	s := w.inbox(w.Principal("two-viewer"))
	w.Directory.SetGrants("acme", "two-viewer", []authz.Grant{{Role: authz.Viewer, ProjectID: "shop",
		EnvironmentID: "*"}})
	if err := w.Authz.Swap(authz.DefaultPolicy()); err != nil {
		t.Fatal(err)
	}
	controltest.TakeFrame(t, s, "a reset", func(f watch.InboxFrame) bool { return f.Reset })
	id := w.CreateManual("i1", "look")
	w.tells(s, "0: "+id+"/look")
	w.Directory.SetGrants("acme", "two-viewer", []authz.Grant{{Role: authz.Admin, ProjectID: "shop", EnvironmentID: "*"}})
	if err := w.Authz.Swap(authz.DefaultPolicy()); err != nil {
		t.Fatal(err)
	}
	w.tells(s, "1: "+id+"/look*")
}
