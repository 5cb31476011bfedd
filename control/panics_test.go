package control_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// panickingStore panics when InRun opens one run.
type panickingStore struct {
	store.Store
	run string
}

func (s *panickingStore) InRun(ctx context.Context, runID string, do func(store.RunTx) error) error {
	return s.Store.InRun(ctx, runID, func(tx store.RunTx) error {
		if runID == s.run {
			panic("a fault of this run")
		}
		return do(tx)
	})
}

// safeBuffer is a log buffer that several goroutines may write.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// panics returns the value of dvt_panics_total of a duty.
func panics(t *testing.T, r *prometheus.Registry, duty string) (n float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "dvt_panics_total" && m.GetLabel()[0].GetValue() == duty {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// alertsOf returns the alerts about a run.
func alertsOf(w *world, runID string) (out []store.AlertState) {
	w.T.Helper()
	for _, a := range controltest.Must[[]store.AlertState](w.T)(w.Config.Store.ListAlerts(w.T.Context(),
		store.AlertFilter{TenantID: "acme", Limit: 100})) {
		if a.RunID == runID {
			out = append(out, a)
		}
	}
	return out
}

func TestExpireApprovals_APanicSetsOneRunAsideAndRaisesAnAlert(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 1)
	bad, good := w.CreateQueued("r1", "s1"), w.CreateQueued("r2", "s1")
	log, registry := &safeBuffer{}, prometheus.NewRegistry()
	w.Config.Store = &panickingStore{Store: w.Config.Store, run: bad}
	w.Config.Logger, w.Config.Metrics = slog.New(slog.NewTextHandler(log, nil)), registry
	w.Clock.Advance(25 * time.Hour)
	w.Spawn(usecases.New(w.Config).ExpireApprovals)
	controltest.Eventually(t, "the approval of the other run expires",
		func() bool { return w.StateOf(good).Status == run.Cancelled })
	controltest.Eventually(t, "an alert about the run that was put aside", func() bool {
		return len(alertsOf(w, bad)) == 1
	})
	a := alertsOf(w, bad)[0]
	if a.Level != store.AlertHigh || a.Code != run.CodeInternal || !strings.Contains(a.Note, "leaves the run alone") {
		t.Errorf("the alert is %+v, want level HIGH and a note that the duty leaves the run alone", a)
	}
	if n := panics(t, registry, "approvals"); n != 1 {
		t.Errorf("dvt_panics_total is %v, want 1, because the run is put aside", n)
	}
	if got := log.String(); !strings.Contains(got, bad) || !strings.Contains(got, "panics_test.go") {
		t.Errorf("the log lacks the run and the stack:\n%s", got)
	}
	w.Clock.Advance(time.Minute)
	controltest.Eventually(t, "a second try after the pause", func() bool { return panics(t, registry, "approvals") == 2 })
	if n := len(alertsOf(w, bad)); n != 1 {
		t.Errorf("there are %d alerts about the run, want only the first one", n)
	}
}
