package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/store"
)

// accessChecks returns its errors from Check one after the other, and then repeats the last one.
type accessChecks struct{ answers []error }

func (a *accessChecks) Check(context.Context) error {
	err := a.answers[0]
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
	return err
}

func TestWorker_EndsWhenItsAccessToTheJournalStaysDenied(t *testing.T) {
	t.Parallel()
	denied, away := fmt.Errorf("%w: the token", engine.ErrDenied), store.ErrUnavailable
	log := slog.New(slog.DiscardHandler)
	for name, test := range map[string]struct {
		answers []error
		ends    time.Duration // 0 means that it goes on
	}{
		"denied":                     {[]error{denied}, 3 * accessEvery},
		"denied while it is changed": {[]error{denied, denied, nil, denied, denied, nil}, 0},
		"away":                       {[]error{away}, 0},
		"granted":                    {[]error{nil}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := whileGranted(ctx, &accessChecks{test.answers}, log,
					func(ctx context.Context) error { <-ctx.Done(); return nil })
				took := time.Since(began)
				if test.ends == 0 && (err != nil || took != time.Hour) {
					t.Errorf("the worker ended after %s with %v, want it to go on", took, err)
				}
				if test.ends > 0 && (!errors.Is(err, engine.ErrDenied) || took != test.ends) {
					t.Errorf("the worker ended after %s with %v, want ErrDenied after %s", took, err, test.ends)
				}
			})
		})
	}
}

func TestWorker_StartsWithoutItsServerButNotWithoutAccess(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	if err := checkJournal(t.Context(), &accessChecks{[]error{engine.ErrDenied}}, log); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("denied: %v, want ErrDenied", err)
	}
	for _, answer := range []error{nil, store.ErrUnavailable} {
		if err := checkJournal(t.Context(), &accessChecks{[]error{answer}}, log); err != nil {
			t.Errorf("%v: %v, want no error", answer, err)
		}
	}
}

func TestWorker_LogsAnOutageOfItsServerOnceWithACount(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	away := fmt.Errorf("%w: the server answered 502", store.ErrUnavailable)
	answers := append(slices.Repeat([]error{away}, 10), nil)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_ = watchAccess(ctx, &accessChecks{answers}, slog.New(slog.NewTextHandler(&out, nil)))
	})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "502") ||
		!strings.Contains(lines[0], "/engine/journal") || !strings.Contains(lines[1], "level=INFO") ||
		!strings.Contains(lines[1], "failedChecks=10") {
		t.Errorf("the log is %q, want one warning with the status and one line when it is over", lines)
	}
}
