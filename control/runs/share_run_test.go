package runs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// shared makes a world whose tenant acme permits share links for 24 hours.
func shared(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(c *usecases.Config) { c.Seals = controltest.TicketKeys(t, "k1") })
	w.shareLinks(24)
	return w
}

func (w *world) shareLinks(hours int) {
	w.T.Helper()
	controltest.Must[admission.ModeChange](w.T)(w.SetShareLinks(w.T.Context(), w.Principal("dev-admin"),
		admission.SetShareLinks{RequestID: uuid.NewString(), Hours: hours, Reason: "the team's chat"}))
}

func (w *world) expectNotShared(token, because string) {
	w.T.Helper()
	if got, err := w.Shared(w.T.Context(), token); !errors.Is(err, runs.ErrNotShared) {
		w.T.Errorf("%s: the link shows %+v (%v), want nothing", because, got, err)
	}
}

func TestShareRun_ShowsTheStatusUntilItExpiresOrIsRevoked(t *testing.T) {
	t.Parallel()
	w := shared(t)
	ctx, viewer := t.Context(), w.Principal("dev-viewer")
	id := w.CreateRunning("r", "s1", "s2")
	// Not at the beginning of a quarter of an hour, in which all links of a run are the same.
	w.Clock.Advance(7 * time.Minute)
	controltest.Must[struct{}](t)(struct{}{}, w.LoadPolicy(ctx))
	link := controltest.Must[runs.ShareLink](t)(w.ShareRun(ctx, viewer, id, "q1"))
	if again := controltest.Must[runs.ShareLink](t)(w.ShareRun(ctx, viewer, id, "q2")); again != link {
		t.Errorf("a second link is %+v, want the same as %+v", again, link)
	}
	if n := w.CountAuditRows(`action = 'SHARE_RUN' AND outcome = 'ACCEPTED' AND actor = 'dev-viewer'`); n != 2 {
		t.Errorf("%d audit rows, want one for each call", n)
	}
	w.BeginStep(id, "s1", 1)
	w.FinishStep(id, "s1", 1, run.StepFailedEvent)
	got := controltest.Must[runs.SharedRun](t)(w.Shared(ctx, link.Token))
	if got.RunID != id || got.Status != run.Running || got.FailedSteps != 1 || got.StartedAt == nil {
		t.Errorf("the link shows %+v, want the running run with one failed step", got)
	}
	w.Clock.Advance(23*time.Hour + 59*time.Minute)
	controltest.Must[struct{}](t)(struct{}{}, w.LoadPolicy(ctx)) // a server does it each second
	controltest.Must[runs.SharedRun](t)(w.Shared(ctx, link.Token))
	w.Clock.Advance(16 * time.Minute)
	controltest.Must[struct{}](t)(struct{}{}, w.LoadPolicy(ctx))
	w.expectNotShared(link.Token, "expired")

	link = controltest.Must[runs.ShareLink](t)(w.ShareRun(ctx, viewer, id, "q3"))
	w.shareLinks(48)
	w.expectNotShared(link.Token, "made before a change of the setting")
	link = controltest.Must[runs.ShareLink](t)(w.ShareRun(ctx, viewer, id, "q4"))
	w.shareLinks(0)
	w.expectNotShared(link.Token, "forbidden by the tenant")
}

func TestShareRun_IsRefused(t *testing.T) {
	t.Parallel()
	w := shared(t)
	ctx := t.Context()
	id := w.CreateRunning("r", "s1")
	link := controltest.Must[runs.ShareLink](t)(w.ShareRun(ctx, w.Engineer(), id, "q"))
	_, err := w.ShareRun(ctx, w.ForeignPrincipal(), id, "q")
	controltest.Refusal(t, err, run.CodeNotFound)
	_, err = w.ShareRun(ctx, w.Engineer(), id, "")
	controltest.Refusal(t, err, run.CodeBadInput)
	for range 9 {
		controltest.Must[runs.ShareLink](t)(w.ShareRun(ctx, w.Engineer(), id, "q"))
	}
	_, err = w.ShareRun(ctx, w.Engineer(), id, "q")
	controltest.Refusal(t, err, run.CodeRequestRate)
	text, seal, _ := strings.Cut(link.Token, ".")
	for _, token := range []string{"", ".", text, text + ".", "." + seal, text + ".k1." + seal, seal + "." + text,
		text + "=." + seal, strings.Repeat("A", 1<<16), text[:len(text)-2] + "AA." + seal} {
		w.expectNotShared(token, "forged")
	}
	set := func(who string, hours int) error {
		return controltest.ErrorOf(w.SetShareLinks(ctx, w.Principal(who), admission.SetShareLinks{RequestID: "s",
			Hours: hours, Reason: "x"}))
	}
	controltest.Refusal(t, set("dev-engineer", 24), run.CodeForbidden)
	controltest.Refusal(t, set("dev-admin", 169), run.CodeBadInput)
	controltest.Refusal(t, set("dev-admin", -1), run.CodeBadInput)
	for _, row := range []string{"dev-admin SET_SHARE_LINKS ACCEPTED",
		"dev-admin SET_SHARE_LINKS REJECTED BAD_USER_INPUT"} {
		if !w.HasAuditRow("acme", row) {
			t.Errorf("the audit is %q, want %q", w.AuditRows("acme"), row)
		}
	}

	off := newWorld(t, func(c *usecases.Config) { c.Seals = controltest.TicketKeys(t, "k1") })
	own := off.CreateRunning("r", "s1")
	_, err = off.ShareRun(ctx, off.Engineer(), own, "q")
	controltest.Refusal(t, err, run.CodeForbidden)
	var refused *control.Error
	if !errors.As(err, &refused) || refused.Denial == nil || !slices.Contains(refused.Denial.WhoCould, "dev-admin") {
		t.Errorf("the refusal is %+v, want that it names dev-admin, who can permit links", refused)
	}
}
