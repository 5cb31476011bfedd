package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// reports is a server that accepts reports or returns an error. It returns the errors of answers before err.
type reports struct {
	taken   []engine.WorkerReport
	answers []error
	orders  []bool // to drain, one for each answer
	err     error
}

func (r *reports) Report(_ context.Context, w engine.WorkerReport) (engine.WorkerOrder, error) {
	r.taken = append(r.taken, w)
	order := engine.WorkerOrder{}
	if len(r.orders) > 0 {
		order.Drain, r.orders = r.orders[0], r.orders[1:]
	}
	if len(r.answers) > 0 {
		err := r.answers[0]
		r.answers = r.answers[1:]
		return order, err
	}
	return order, r.err
}

// reportsTo are those of a worker without sandbox.
func reportsTo(to engine.WorkerReporter, out io.Writer, queues ...string) *workerReports {
	return &workerReports{to: to, queues: queues, current: unsandboxedReport, drain: func(bool) {},
		ended: func([]string) {}, log: slog.New(slog.NewTextHandler(out, nil))}
}

// idle is the work of a worker without steps. It returns when ctx ends.
func idle(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestWorker_ReportsAtItsStartAndEvery20Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Second)
		defer cancel()
		to := &reports{}
		queues := []string{"tq-data-b", "tq-data-a", "tq-data-b"}
		if err := whileReporting(ctx, reportsTo(to, io.Discard, queues...), idle); err != nil {
			t.Fatal(err)
		}
		if len(to.taken) != 7 {
			t.Errorf("%d reports in two minutes, want 7", len(to.taken))
		}
		if got := strings.Join(to.taken[0].Queues, " "); got != "tq-data-a tq-data-b" {
			t.Errorf("the report names the queues %s, want each once", got)
		}
	})
}

func TestWorker_LogsOnceThatItsReportsAreNotAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Second)
		defer cancel()
		var out strings.Builder
		to := &reports{err: errors.Join(store.ErrUnavailable)}
		if err := whileReporting(ctx, reportsTo(to, &out, "q"), idle); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "level=WARN"); lines != 1 || len(to.taken) != 16 {
			t.Errorf("%d warnings of %d reports, want 1 of 16", lines, len(to.taken))
		}
	})
}

func TestWorker_EndsWhenTheReportOfItsSandboxIsDenied(t *testing.T) {
	t.Parallel()
	denied := fmt.Errorf("%w: the account data-1 does not cover tq-data-prod", engine.ErrDenied)
	refused, away := fmt.Errorf("%w: no name", engine.ErrRefused), store.ErrUnavailable
	for name, test := range map[string]struct {
		answers []error
		last    error         // answers all further reports
		ends    time.Duration // when the worker ends with the denial; 0 means that it goes on
		idles   bool          // whether no work starts
	}{
		"denied at its start":           {nil, denied, 0, true},
		"denied later":                  {[]error{nil}, denied, reportEvery + 2*accessEvery, false},
		"denied after an outage":        {[]error{away, away}, denied, 2*reportEvery + 2*accessEvery, false},
		"denied while servers restart":  {[]error{nil, denied, denied, nil, denied, denied, away, denied}, nil, 0, false},
		"refused for another reason":    {nil, refused, 0, false},
		"a server that does not answer": {nil, away, 0, false},
		"accepted":                      {nil, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began, worked := time.Now(), false
				err := whileReporting(ctx, reportsTo(&reports{answers: test.answers, err: test.last}, io.Discard,
					"tq-data-prod"), func(ctx context.Context) error { worked = true; return idle(ctx) })
				took := time.Since(began)
				if worked == test.idles {
					t.Errorf("the worker served its queues: %t, want %t", worked, !test.idles)
				}
				if test.ends == 0 && !test.idles {
					if err != nil || took != time.Hour {
						t.Errorf("the worker ended after %s with %v, want it to go on", took, err)
					}
					return
				}
				if !errors.Is(err, engine.ErrDenied) || !strings.Contains(err.Error(), "tq-data-prod") || took != test.ends {
					t.Errorf("the worker ended after %s with %v, want ErrDenied that names the queue after %s", took, err, test.ends)
				}
			})
		})
	}
}

func TestWorker_LogsThatItsReportsAreDeniedAndAcceptedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var out strings.Builder
		to := &reports{answers: []error{nil, fmt.Errorf("%w: tq-data-prod", engine.ErrDenied)}}
		if err := whileReporting(ctx, reportsTo(to, &out, "q"), idle); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"ends if this continues", "tq-data-prod", "is accepted again"} {
			if strings.Count(out.String(), want) != 1 {
				t.Errorf("the log does not say %q once:\n%s", want, out.String())
			}
		}
	})
}

func TestWorker_IsDrainedByTheAnswerToItsReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var out strings.Builder
		var drains []bool
		// The third answer is an error, whose order means nothing.
		r := reportsTo(&reports{orders: []bool{true, true, false, true, false},
			answers: []error{nil, nil, store.ErrUnavailable}}, &out, "q")
		r.drain = func(on bool) {
			if len(drains) == 0 || drains[len(drains)-1] != on {
				drains = append(drains, on)
			}
		}
		if err := whileReporting(ctx, r, idle); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]bool{true, false}, drains); diff != "" {
			t.Errorf("the changes of the worker (-want +got):\n%s", diff)
		}
		for _, want := range []string{"this worker is drained", "not drained any more"} {
			if strings.Count(out.String(), want) != 1 {
				t.Errorf("the log does not say %q once:\n%s", want, out.String())
			}
		}
	})
}

func TestSendReport_NamesAtMost64QueuesInOneReport(t *testing.T) {
	t.Parallel()
	var queues []string
	for i := range reportQueues + 1 {
		queues = append(queues, fmt.Sprintf("q%03d", i))
	}
	to := &reports{}
	if _, err := sendReport(t.Context(), to, queues, unsandboxedReport()); err != nil {
		t.Fatal(err)
	}
	if len(to.taken) != 2 || len(to.taken[0].Queues) != reportQueues || len(to.taken[1].Queues) != 1 {
		t.Errorf("%d reports, want one of %d queues and one of 1", len(to.taken), reportQueues)
	}
}

// unsandboxedReport returns the report of a worker that starts programs without a sandbox.
func unsandboxedReport() engine.WorkerReport {
	r := engine.WorkerReport{Worker: "host/1", Runtime: "none", Parts: []plan.SandboxPart{},
		Missing: map[plan.SandboxPart]string{}, OK: true, At: time.Now().UTC()}
	for _, part := range plan.SandboxParts() {
		r.Missing[part] = "this worker starts programs without a sandbox"
	}
	return r
}
