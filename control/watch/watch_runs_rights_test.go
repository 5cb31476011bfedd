package watch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
)

// reader watches a page like a client, alone or with a ticket: it keeps the rows, and opens a new stream after it was
// refused.
type reader struct {
	*world
	p      authz.Principal
	q      control.RunsQuery
	ticket *watch.Ticket // nil when it watches alone
	shared bool
	stream control.Stream[watch.RunsFrame]
	rows   map[string]control.RunView
	last   watch.RunsFrame
	frames int
	moved  int // number of streams that ended by a loss of rights
}

func (r *reader) open() bool {
	r.T.Helper()
	var err error
	if r.shared {
		if r.ticket, err = r.AdmitRuns(context.Background(), r.p, r.q); err == nil {
			r.stream, err = r.OpenRuns(context.Background(), r.ticket)
		}
	} else {
		r.stream, err = r.WatchRuns(context.Background(), r.p, r.q)
	}
	r.rows = map[string]control.RunView{}
	if err != nil {
		controltest.Refusal(r.T, err, run.CodeForbidden)
		r.stream = nil
	}
	return err == nil
}

// close ends the stream and forgets the rows.
func (r *reader) close() {
	if r.stream != nil {
		r.stream.Close()
	}
	r.stream, r.rows = nil, map[string]control.RunView{}
}

// read takes all frames that are available, and checks every row against the current rights.
func (r *reader) read() {
	r.T.Helper()
	for r.stream != nil || r.open() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		f, err := r.stream.Next(ctx)
		cancel()
		if r.shared { // like the transport, before and between payloads
			if lost := r.ticket.Check(); lost != nil {
				err = lost
			}
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return
		case errors.Is(err, watch.ErrMoved):
			r.moved++
			r.close()
			continue
		case err != nil:
			controltest.Refusal(r.T, err, run.CodeForbidden)
			r.moved++
			r.close()
			return
		}
		r.take(f)
	}
}

func (r *reader) take(f watch.RunsFrame) {
	r.frames++
	if r.last = f; f.Reset {
		r.rows = map[string]control.RunView{}
	}
	for _, id := range f.Removed {
		delete(r.rows, id)
	}
	for _, v := range f.Runs {
		h := v.State.Header
		d := controltest.Must[authz.Decision](r.T)(
			r.Authz.Decide(r.p, authz.Read, authz.Object{TenantID: h.TenantID, ProjectID: h.ProjectID,
				EnvironmentID: h.EnvironmentID}))
		if !d.Allowed {
			r.T.Errorf("%s with %+v was shown a run of %s/%s", r.p.ID, r.Authz.Grants(r.p), h.ProjectID, h.EnvironmentID)
		}
		if was, shown := r.rows[h.RunID]; shown && was.State.Seq > h.Seq {
			r.T.Errorf("run %s went back from seq %d to %d", h.RunID, was.State.Seq, h.Seq)
		}
		r.rows[h.RunID] = v
	}
}

// agrees returns the difference between the page and the result of a query.
func (r *reader) agrees() string {
	want := map[string]run.Seq{}
	for _, v := range controltest.Must[control.RunsPage](r.T)(r.Runs(context.Background(), r.p, r.q)).Runs {
		want[v.State.RunID] = v.State.Seq
	}
	got := map[string]run.Seq{}
	for id, v := range r.rows {
		got[id] = v.State.Seq
	}
	if r.stream != nil && r.last.Sync != live.Live {
		return fmt.Sprintf("%s: %s %s", r.p.ID, r.last.Sync, r.last.Reason)
	}
	return cmp.Diff(want, got)
}

// Rights are granted and removed while runs change. No viewer gets a row that it may not read at that moment, and in
// the end every viewer has the page of a query.
// contract: S16, T178
func TestWatchRuns_OnlyWhatMayBeRead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			onlyWhatMayBeRead(t, rand.New(rand.NewPCG(seed, 16)))
		})
	}
}

func onlyWhatMayBeRead(t *testing.T, r *rand.Rand) {
	w := newWorld(t, func(c *usecases.Config) { c.Lists = live.NewLists(c.Store, c.Bus, live.ListsConfig{}) })
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	grants := func() (out []authz.Grant) {
		for range r.IntN(4) {
			role := authz.Viewer
			if r.IntN(3) == 0 {
				role = authz.Operator
			}
			out = append(out, authz.Grant{Role: role, ProjectID: one("shop", "store", "bank", "*"),
				EnvironmentID: one("dev", "prod", "*", "*")})
		}
		return out
	}
	var readers []*reader
	for _, id := range []string{"dev-viewer", "shop-viewer", "two-viewer", "env-viewer", "nobody", "dev-viewer",
		"two-viewer", "two-viewer"} {
		q := control.RunsQuery{First: 1 + r.IntN(8)}
		if r.IntN(3) == 0 {
			q.Filter.ProjectIDs = []string{one("shop", "store")}
		}
		if r.IntN(3) == 0 {
			q.Filter.EnvironmentID = one("dev", "prod")
		}
		if r.IntN(3) == 0 {
			q.Filter.Statuses = []run.Status{run.Approved, run.Running}
		}
		for _, shared := range []bool{false, true} {
			readers = append(readers, &reader{world: w, p: w.Principal(id), q: q, shared: shared})
		}
	}
	ended := map[string]bool{}
	var runs []string
	for step := range 120 {
		switch n := r.IntN(10); {
		case n < 3:
			runs = append(runs, w.CreateInProject(fmt.Sprint("r", step), one("shop", "store", "bank"), one("dev", "prod")))
		case n < 6 && len(runs) > 0:
			if id := runs[r.IntN(len(runs))]; !ended[id] {
				ended[id] = true
				w.AppendEvents(id, runtest.Draft(run.RunCancelled, "", 1))
			}
		case n < 8:
			w.Directory.SetGrants("acme", one("dev-viewer", "shop-viewer", "two-viewer", "env-viewer", "nobody"), grants())
			if err := w.Authz.Swap(authz.DefaultPolicy()); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range readers {
			if r.IntN(3) == 0 {
				v.read()
			}
		}
	}
	w.Directory.SetGrants("acme", "two-viewer", []authz.Grant{{Role: authz.Viewer, ProjectID: "shop", EnvironmentID: "*"},
		{Role: authz.Viewer, ProjectID: "bank", EnvironmentID: "*"}})
	if err := w.Authz.Swap(authz.DefaultPolicy()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testtime.Of(time.Minute)); ; {
		apart := slices.IndexFunc(readers, func(v *reader) bool { v.read(); return v.agrees() != "" })
		if apart < 0 {
			break
		}
		if v := readers[apart]; time.Now().After(deadline) {
			t.Fatalf("%s with %+v asks for %+v, shared %v (-query +page): %s", v.p.ID, w.Authz.Grants(v.p), v.q, v.shared,
				v.agrees())
		}
	}
	frames, moved, rows := 0, 0, 0
	for _, v := range readers {
		frames, moved, rows = frames+v.frames, moved+v.moved, rows+len(v.rows)
		v.close()
	}
	if frames < 50 || moved == 0 || rows == 0 {
		t.Errorf("%d frames, %d losses and %d rows are too few for the test", frames, moved, rows)
	}
	if lists, pages, streams := w.Config.Lists.Watched(); lists+pages+streams > 0 {
		t.Errorf("%d lists, %d pages and %d streams are left, want none", lists, pages, streams)
	}
}

// Viewers of one class share a page, and viewers of another class do not see it.
// contract: T101
func TestOpenRuns_OnlyViewersOfOneClassShareAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.CreateInProject("a", "shop", "dev")
	w.CreateInProject("b", "bank", "dev")
	admit := func(id string) *watch.Ticket {
		return controltest.Must[*watch.Ticket](t)(w.AdmitRuns(t.Context(), w.Principal(id), control.RunsQuery{}))
	}
	one, two, all := admit("shop-viewer"), admit("shop-viewer"), admit("dev-viewer")
	if one.Class() != two.Class() || one.Class() == all.Class() {
		t.Errorf("the classes are %s, %s and %s, want the first two equal and the third different",
			one.Class(), two.Class(), all.Class())
	}
	s := controltest.OpenStream[watch.RunsFrame](t)(w.OpenRuns(t.Context(), one))
	f := controltest.TakeFrame(t, s, "the page", func(f watch.RunsFrame) bool { return len(f.Runs) > 0 })
	if diff := cmp.Diff([]string{a}, controltest.RunIDs(f)); diff != "" {
		t.Error(diff)
	}
	for what, q := range map[string]control.RunsQuery{"201 rows": {First: 201}, "-1 rows": {First: -1}} {
		_, err := w.AdmitRuns(t.Context(), w.Principal("dev-viewer"), q)
		controltest.Refusal(t, err, run.CodeBadInput)
		if _, err := w.WatchRuns(t.Context(), w.Principal("dev-viewer"), q); err == nil {
			t.Errorf("more than the limit of %s are watched", what)
		}
	}
}

// A stream above the limit of the server is refused with TOO_MANY_STREAMS.
func TestWatchRuns_RefusesTooManyStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) {
		c.Lists = live.NewLists(c.Store, c.Bus,
			live.ListsConfig{MaxStreams: 1})
	})
	controltest.OpenStream[watch.RunsFrame](t)(w.WatchRuns(t.Context(), w.Principal("dev-viewer"), control.RunsQuery{}))
	_, err := w.WatchRuns(t.Context(), w.Principal("dev-viewer"), control.RunsQuery{})
	if e := controltest.Refusal(t, err, run.CodeTooManyStreams); e.RetryAfter == 0 {
		t.Error("the refusal has no RetryAfter")
	}
	ticket := controltest.Must[*watch.Ticket](t)(w.AdmitRuns(t.Context(), w.Principal("dev-viewer"), control.RunsQuery{}))
	_, err = w.OpenRuns(t.Context(), ticket)
	controltest.Refusal(t, err, run.CodeTooManyStreams)
}
