package control_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// shared makes a world whose tenant acme permits share links for 24 hours.
func shared(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(c *usecases.Config) { c.Seals = ticketKeys(t, "k1") })
	w.shareLinks(24)
	return w
}

func (w *world) shareLinks(hours int) {
	w.t.Helper()
	must[admission.ModeChange](w.t)(w.SetShareLinks(w.t.Context(), w.who("dev-admin"),
		admission.SetShareLinks{RequestID: uuid.NewString(), Hours: hours, Reason: "the team's chat"}))
}

func (w *world) expectNotShared(token, because string) {
	w.t.Helper()
	if got, err := w.Shared(w.t.Context(), token); !errors.Is(err, runs.ErrNotShared) {
		w.t.Errorf("%s: the link shows %+v (%v), want nothing", because, got, err)
	}
}

func TestShareRun_ShowsTheStatusUntilItExpiresOrIsRevoked(t *testing.T) {
	t.Parallel()
	w := shared(t)
	ctx, viewer := t.Context(), w.who("dev-viewer")
	id := w.running("r", "s1", "s2")
	link := must[runs.ShareLink](t)(w.ShareRun(ctx, viewer, id, "q1"))
	if again := must[runs.ShareLink](t)(w.ShareRun(ctx, viewer, id, "q2")); again != link {
		t.Errorf("a second link is %+v, want the same as %+v", again, link)
	}
	if n := w.auditRows(`action = 'SHARE_RUN' AND outcome = 'ACCEPTED' AND actor = 'dev-viewer'`); n != 2 {
		t.Errorf("%d audit rows, want one for each call", n)
	}
	w.begin(id, "s1", 1)
	w.finish(id, "s1", 1, run.StepFailedEvent)
	got := must[runs.SharedRun](t)(w.Shared(ctx, link.Token))
	if got.RunID != id || got.Status != run.Running || got.FailedSteps != 1 || got.StartedAt == nil {
		t.Errorf("the link shows %+v, want the running run with one failed step", got)
	}
	w.clock.advance(23*time.Hour + 30*time.Minute)
	must[struct{}](t)(struct{}{}, w.LoadPolicy(ctx)) // a server does it each second
	must[runs.SharedRun](t)(w.Shared(ctx, link.Token))
	w.clock.advance(30 * time.Minute)
	must[struct{}](t)(struct{}{}, w.LoadPolicy(ctx))
	w.expectNotShared(link.Token, "expired")

	link = must[runs.ShareLink](t)(w.ShareRun(ctx, viewer, id, "q3"))
	w.shareLinks(48)
	w.expectNotShared(link.Token, "made before a change of the setting")
	link = must[runs.ShareLink](t)(w.ShareRun(ctx, viewer, id, "q4"))
	w.shareLinks(0)
	w.expectNotShared(link.Token, "forbidden by the tenant")
}

func TestShareRun_IsRefused(t *testing.T) {
	t.Parallel()
	w := shared(t)
	ctx := t.Context()
	id := w.running("r", "s1")
	link := must[runs.ShareLink](t)(w.ShareRun(ctx, w.eng(), id, "q"))
	_, err := w.ShareRun(ctx, w.foreign(), id, "q")
	refusal(t, err, run.CodeNotFound)
	_, err = w.ShareRun(ctx, w.eng(), id, "")
	refusal(t, err, run.CodeBadInput)
	for range 9 {
		must[runs.ShareLink](t)(w.ShareRun(ctx, w.eng(), id, "q"))
	}
	_, err = w.ShareRun(ctx, w.eng(), id, "q")
	refusal(t, err, run.CodeRequestRate)
	text, seal, _ := strings.Cut(link.Token, ".")
	for _, token := range []string{"", ".", text, text + ".", "." + seal, text + ".k1." + seal, seal + "." + text,
		text + "=." + seal, strings.Repeat("A", 1<<16), text[:len(text)-2] + "AA." + seal} {
		w.expectNotShared(token, "forged")
	}
	set := func(who string, hours int) error {
		return errorOf(w.SetShareLinks(ctx, w.who(who), admission.SetShareLinks{RequestID: "s", Hours: hours, Reason: "x"}))
	}
	refusal(t, set("dev-engineer", 24), run.CodeForbidden)
	refusal(t, set("dev-admin", 169), run.CodeBadInput)
	refusal(t, set("dev-admin", -1), run.CodeBadInput)

	off := newWorld(t, func(c *usecases.Config) { c.Seals = ticketKeys(t, "k1") })
	own := off.running("r", "s1")
	_, err = off.ShareRun(ctx, off.eng(), own, "q")
	refusal(t, err, run.CodeForbidden)
}
