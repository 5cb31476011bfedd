package control_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// contract: T208
func TestRefused_EveryTextOfTheCallerFitsIntoTheRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, reason := range []string{"probe\x00", strings.Repeat("a", 999) + "é", "\x1b]52;c;eA==\x07", "\xff"} {
		w.Clock.Advance(2 * time.Minute) // audit rows are limited per minute, and each refusal needs its own
		_, err := w.FreezeTenant(t.Context(), w.Principal("dev-viewer"), admission.FreezeTenant{RequestID: "r", Frozen: true,
			Reason: reason})
		controltest.Refusal(t, err, run.CodeForbidden)
		if links := w.CheckAuditChain("acme"); len(links) != i+1 {
			t.Errorf("reason %q: the audit has %d rows, want %d", reason, len(links), i+1)
		}
	}
}

// failingAudit returns ErrUnavailable for the first calls of Audit.
type failingAudit struct {
	store.Store
	fails int
}

func (s *failingAudit) Audit(ctx context.Context, rows ...store.AuditRow) error {
	if s.fails > 0 {
		s.fails--
		return store.ErrUnavailable
	}
	return s.Store.Audit(ctx, rows...)
}

// contract: T208
func TestRefused_ARowThatWasNotWrittenIsWrittenByTheNextRefusal(t *testing.T) {
	t.Parallel()
	broken := &failingAudit{fails: 1}
	w := newWorld(t, func(c *usecases.Config) { broken.Store = c.Store; c.Store = broken })
	for range 3 {
		_, err := w.FreezeTenant(t.Context(), w.Principal("dev-viewer"), admission.FreezeTenant{RequestID: "r", Frozen: true,
			Reason: "why"})
		controltest.Refusal(t, err, run.CodeForbidden)
	}
	if rows := w.AuditRows("acme"); len(rows) != 1 {
		t.Errorf("the audit log has %q, want one row, written by the second refusal", rows)
	}
}

func TestInput_TextThatATerminalObeysIsRefused(t *testing.T) {
	t.Parallel()
	const bad = "\x1b]52;c;eA==\x07"
	w := newWorld(t)
	id := w.CreateQueued("text", "s1")
	grants := []authz.Grant{{Role: authz.Viewer, ProjectID: "shop", EnvironmentID: "dev"}}
	for name, call := range map[string]func(context.Context, string) error{
		"the name of a token": func(ctx context.Context, text string) error {
			_, err := w.CreateToken(ctx, w.Engineer(), access.CreateToken{RequestID: "t", Name: text, Grants: grants})
			return err
		},
		"the reason of a freeze": func(ctx context.Context, text string) error {
			_, err := w.FreezeTenant(ctx, w.Principal("dev-admin"), admission.FreezeTenant{RequestID: "f", Reason: text})
			return err
		},
		"the reason of a pause": func(ctx context.Context, text string) error {
			in := controltest.SignalOf(id, "p", run.Pause)
			in.Reason = text
			_, err := w.SignalRun(ctx, w.Engineer(), in)
			return err
		},
		"the note of an alert": func(ctx context.Context, text string) error {
			in := controltest.SignalOf(id, "a", run.EscalateAlert)
			in.Payload = []byte(`{"level":"LOW","note":` + quoted(text) + `}`)
			_, err := w.SignalRun(ctx, w.Engineer(), in)
			return err
		},
		"the reason of a bulk": func(ctx context.Context, text string) error {
			in := controltest.SignalOf("", "", run.Pause)
			_, err := w.SignalRuns(ctx, w.Engineer(), bulk.SignalRuns{
				RequestID: "b", Runs: bulk.BulkRuns{IDs: []string{id}}, ExpectedCount: 1, Reason: text, Signal: in,
			})
			return err
		},
		"the reason of a rerun": func(ctx context.Context, text string) error {
			_, err := w.Rerun(ctx, w.Engineer(), runs.Rerun{RunID: id, RequestID: "r", Start: true, Reason: text})
			return err
		},
		"the reason of an approval": func(ctx context.Context, text string) error {
			_, err := w.ApproveRun(ctx, w.Engineer(), runs.ApproveRun{RunID: id, RequestID: "ap", Reason: text})
			return err
		},
		"the notes of a completion": func(ctx context.Context, text string) error {
			_, err := w.CompleteManualStep(ctx, w.Engineer(), runs.CompleteManualStep{
				RunID: id, StepID: "s1", Token: "x", Outcome: run.ManualSucceeded, Notes: text,
			})
			return err
		},
	} {
		err := call(t.Context(), bad)
		own := (*control.Error)(nil)
		if !errors.As(err, &own) || own.Code != run.CodeBadInput || !strings.Contains(own.Violations[0].Message,
			"control characters") {
			t.Errorf("%s: error %v, want BAD_USER_INPUT about control characters", name, err)
		}
		// Text without control characters passes this check.
		if err := call(t.Context(), "a line\u00a0é"); errors.As(err, &own) && own.Code == run.CodeBadInput {
			t.Errorf("%s: plain text is refused with %v", name, err)
		}
	}
}

func quoted(text string) string {
	return `"` + strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`).Replace(text) + `"`
}
