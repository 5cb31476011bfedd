package retention_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin"
)

func days(n int) *int { return &n }

func newWorld(t *testing.T) *controltest.World {
	t.Helper()
	return controltest.New(t, func(c *usecases.Config) {
		c.Retention = retention.Installation{Document: retention.DefaultDocument()}
	})
}

func set(version int64, doc retention.Document) retention.SetRetention {
	return retention.SetRetention{RequestID: fmt.Sprint("r", version), ExpectedVersion: version, Document: doc,
		Reason: "because"}
}

// oldRun imports a run of the tenant acme that ended long ago.
func oldRun(t *testing.T, w *controltest.World, runID string) {
	t.Helper()
	importOld(t, w, runID)
}

// importOld is oldRun for a run whose step names artifacts.
func importOld(t *testing.T, w *controltest.World, runID string, refs ...run.ArtifactRef) {
	t.Helper()
	id := runtest.ID
	id.RunID, id.TenantID = runID, "acme"
	completed := runtest.Draft(run.StepCompletedEvent, "s1", 1)
	if len(refs) > 0 {
		completed = runtest.Draft(run.StepCompletedEvent, "s1", 1, runtest.M{"artifactRefs": refs})
	}
	events := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"),
		runtest.Draft(run.StepStartedEvent, "s1", 1), completed,
		runtest.Draft(run.RunCompleted, "", 1))
	shift := w.Clock.Now().AddDate(0, 0, -100).Sub(runtest.Epoch)
	for i := range events {
		events[i].EmittedAt, events[i].PersistedAt = events[i].EmittedAt.Add(shift), events[i].PersistedAt.Add(shift)
	}
	if err := w.Raw.Import(t.Context(), store.NewRun{Run: store.Run{Identity: id, TriggeredBy: "ola",
		CreatedAt: events[0].PersistedAt, TriggerSource: storeadmin.TriggerImport}}, events); err != nil {
		t.Fatal(err)
	}
	l := controltest.Must[store.Loaded](t)(w.Raw.Load(t.Context(), runID))
	if err := w.Raw.MarkPublished(t.Context(), runID, l.Head.LastSeq, l.Head.OpsRev); err != nil {
		t.Fatal(err)
	}
}

func TestSetRetention_MakesVersionsThatCanBePutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin := t.Context(), w.Principal("dev-admin")
	first := controltest.Must[retention.Policy](t)(w.RetentionPolicy(ctx, admin))
	if first.Version != 0 || first.Effective.ArchiveRuns != 90 || first.Effective.StepLogs != 14 || first.LastPass != nil {
		t.Errorf("the policy before any change is %+v, want that of the installation", first)
	}
	doc := retention.Document{Runs: retention.RunDays{ArchiveAfterDays: days(30), DeleteArchiveAfterDays: days(365)},
		Artifacts: map[string]int{"dataset-sample": 1}}
	made, effect, err := w.SetRetention(ctx, admin, set(0, doc))
	if err != nil || made.Version != 1 || made.Effective.DeleteArchive != 365 || made.Effective.Artifacts["custom"] != 90 {
		t.Fatalf("the change made %+v (%v), want version 1 over the values of the installation", made, err)
	}
	if want := "+ runs are archived after: 30 days"; !strings.Contains(strings.Join(effect.Changed, "\n"), want) {
		t.Errorf("changed lines are %q, want one with %q", effect.Changed, want)
	}
	again, _, err := w.SetRetention(ctx, admin, set(0, doc))
	if err != nil || again.Version != 1 {
		t.Errorf("a repetition answers version %d (%v), want 1", again.Version, err)
	}
	moved := set(0, retention.Document{})
	moved.RequestID = "other"
	_, _, err = w.SetRetention(ctx, admin, moved)
	controltest.Refusal(t, err, run.CodeRetentionMoved)
	if _, _, err = w.SetRetention(ctx, admin, set(1, retention.Document{})); err != nil {
		t.Fatal(err)
	}
	page := controltest.Must[retention.PolicyPage](t)(w.RetentionHistory(ctx, admin, 10, 0))
	if len(page.Policies) != 2 || page.HasNext || page.Policies[1].Version != 1 {
		t.Fatalf("the history is %+v, want versions 2 and 1", page)
	}
	old := page.Policies[1].Document
	if back, _, err := w.SetRetention(ctx, admin, set(2, old)); err != nil || back.Effective.ArchiveRuns != 30 {
		t.Errorf("version 1 put back: %+v (%v), want 30 days", back, err)
	}
	if !w.HasAuditRow("acme", "dev-admin SET_RETENTION ACCEPTED") {
		t.Error("the audit has no row of the change")
	}
}

func TestSetRetention_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		doc  retention.Document
		want string
	}{
		"negative":  {retention.Document{StepLogs: days(-1)}, "retention.stepLogs"},
		"too large": {retention.Document{Alerts: days(40_000)}, "retention.alerts"},
		"unknown kind": {retention.Document{Artifacts: map[string]int{"x\n": 1}},
			"retention.artifacts"},
		"deleted before archived": {retention.Document{Runs: retention.RunDays{DeleteArchiveAfterDays: days(90)}},
			"retention.runs.deleteArchiveAfterDays"},
		"deleted and never archived": {retention.Document{Runs: retention.RunDays{ArchiveAfterDays: days(0),
			DeleteArchiveAfterDays: days(9)}}, "retention.runs.deleteArchiveAfterDays"},
	} {
		_, _, err := w.SetRetention(t.Context(), w.Principal("dev-admin"), set(0, c.doc))
		if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != 1 || e.Violations[0].Path != c.want {
			t.Errorf("%s: violations are %+v, want one at %s", name, e.Violations, c.want)
		}
		_, err = w.PreviewRetention(t.Context(), w.Principal("dev-admin"), c.doc)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
}

func TestPreviewRetention_CountsRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.Principal("dev-admin")
	for n := range 3 {
		oldRun(t, w, fmt.Sprint("old-", n))
	}
	if _, err := w.PlaceHold(t.Context(), admin, retention.PlaceHold{RequestID: "h", Kind: store.HoldRun,
		Subject: "old-1", Reason: "a case"}); err != nil {
		t.Fatal(err)
	}
	got := controltest.Must[retention.Effect](t)(w.PreviewRetention(t.Context(), admin, retention.Document{
		Runs: retention.RunDays{ArchiveAfterDays: days(30), DeleteArchiveAfterDays: days(60)}}))
	want := []int64{2, 10, 1, 2}
	counts := []int64{got.Archive.Runs, got.Archive.Events, got.Archive.Held, got.Delete.Runs}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("runs, events and held runs to archive, and runs to delete (-want +got):\n%s", diff)
	}
	words := strings.Join(got.Warnings, "\n")
	for _, part := range []string{"moves 2 runs of about ", "deletes 2 runs for good", "1 run is on hold"} {
		if !strings.Contains(words, part) {
			t.Errorf("warnings are %q, want %q among them", words, part)
		}
	}
}

// A tired administrator reads the preview alone: what is lost for good must stand in it.
func TestPreviewRetention_NamesAllThatIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.Principal("dev-admin")
	for n := range 3 {
		oldRun(t, w, fmt.Sprint("old-", n))
		head := controltest.Must[store.Loaded](t)(w.Raw.Load(t.Context(), fmt.Sprint("old-", n))).Head.LastSeq
		if err := w.Raw.MarkArchived(t.Context(), store.ArchivedRun{RunID: fmt.Sprint("old-", n), Head: head,
			Location: fmt.Sprint("acme/", n), SHA256: "0", Bytes: 1000, Events: int64(head)}); err != nil {
			t.Fatal(err)
		}
	}
	oldRun(t, w, "in-the-store")
	for name, c := range map[string]struct {
		doc  retention.Document
		want string
	}{
		"archives": {retention.Document{Runs: retention.RunDays{DeleteArchiveAfterDays: days(95)}},
			"deletes 3 runs of 3.0 kB in the archive for good"},
		"logs that are gone already": {retention.Document{StepLogs: days(13)}, ""},
		"artifacts of a kind":        {retention.Document{Artifacts: map[string]int{"dbt-manifest": 120}}, ""},
		"dead letters":               {retention.Document{DeadLetters: days(2)}, "dead letters that are older than 2 days"},
		"alerts":                     {retention.Document{Alerts: days(1)}, "more than 1 day ago"},
	} {
		got := controltest.Must[retention.Effect](t)(w.PreviewRetention(t.Context(), admin, c.doc))
		words := strings.Join(got.Warnings, "\n")
		words = strings.ReplaceAll(words, "The next pass moves 1 run", "")
		if c.want == "" && strings.Contains(words, "removes") || !strings.Contains(words, c.want) {
			t.Errorf("%s: warnings are %q, want %q", name, got.Warnings, c.want)
		}
	}
	if _, _, err := w.SetRetention(t.Context(), admin, set(0, retention.Document{StepLogs: days(0)})); err != nil {
		t.Fatal(err)
	}
	got := controltest.Must[retention.Effect](t)(w.PreviewRetention(t.Context(), admin, retention.Document{}))
	if want := "removes the step logs of 4 runs for good"; !strings.Contains(strings.Join(got.Warnings, "\n"), want) {
		t.Errorf("warnings of a policy that keeps logs no more are %q, want %q", got.Warnings, want)
	}
}

func TestRetention_NeedsRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, viewer, admin := t.Context(), w.Principal("dev-viewer"), w.Principal("dev-admin")
	hold := controltest.Must[store.Hold](t)(w.PlaceHold(ctx, admin, retention.PlaceHold{RequestID: "h1",
		Kind: store.HoldPlan, Subject: "sales", Reason: "a case"}))
	for what, err := range map[string]error{
		"policy":  controltest.ErrorOf(w.RetentionPolicy(ctx, viewer)),
		"history": controltest.ErrorOf(w.RetentionHistory(ctx, viewer, 1, 0)),
		"preview": controltest.ErrorOf(w.PreviewRetention(ctx, viewer, retention.Document{})),
		"holds":   controltest.ErrorOf(w.Holds(ctx, viewer, true, 1, "")),
		"place": controltest.ErrorOf(w.PlaceHold(ctx, viewer, retention.PlaceHold{RequestID: "h", Kind: store.HoldRun,
			Subject: "r", Reason: "x"})),
		"lift": controltest.ErrorOf(w.LiftHold(ctx, viewer, retention.LiftHold{RequestID: "l", ID: hold.ID, Reason: "x"})),
	} {
		if controltest.CodeOf(err) != run.CodeForbidden {
			t.Errorf("%s of a viewer: %v, want FORBIDDEN", what, err)
		}
	}
	_, _, err := w.SetRetention(ctx, viewer, set(0, retention.Document{}))
	controltest.Refusal(t, err, run.CodeForbidden)
	stranger := admin
	stranger.TenantID = "globex"
	if _, err := w.LiftHold(ctx, stranger, retention.LiftHold{RequestID: "l", ID: hold.ID, Reason: "mine"}); err == nil {
		t.Error("a stranger lifted a hold of another tenant")
	}
	if page, err := w.Holds(ctx, stranger, true, 10, ""); err == nil && len(page.Holds) > 0 {
		t.Errorf("a stranger sees %+v", page.Holds)
	}
}

// A hold on a misspelt run would keep nothing. The run of another tenant is as unknown as one that does not exist.
func TestPlaceHold_RefusesARunThatDoesNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin := t.Context(), w.Principal("dev-admin")
	oldRun(t, w, "old-1")
	stranger := w.Principal("dev-mallory")
	var texts []string
	for _, c := range []struct {
		who authz.Principal
		run string
	}{{admin, "old-2"}, {stranger, "old-1"}, {stranger, "old-2"}} {
		_, err := w.PlaceHold(ctx, c.who, retention.PlaceHold{RequestID: "h", Kind: store.HoldRun, Subject: c.run,
			Reason: "a case"})
		if code := controltest.CodeOf(err); code != run.CodeNotFound {
			t.Errorf("a hold of %s on %s: %v, want NOT_FOUND", c.who.ID, c.run, err)
		}
		texts = append(texts, fmt.Sprint(err))
	}
	if texts[1] != texts[2] {
		t.Errorf("the run of another tenant answers %q, a missing one %q", texts[1], texts[2])
	}
	_, err := w.LiftHold(ctx, admin, retention.LiftHold{RequestID: "l", ID: "no-such-hold", Reason: "x"})
	if e := controltest.Refusal(t, err, run.CodeNotFound); !strings.Contains(e.Message, "no such hold") {
		t.Errorf("an unknown hold answers %q, want a text about holds", e.Message)
	}
}

func TestHolds_ArePlacedAndLifted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin := t.Context(), w.Principal("dev-admin")
	in := retention.PlaceHold{RequestID: "h1", Kind: store.HoldSubject, Subject: "ola", Reason: "a case"}
	h := controltest.Must[store.Hold](t)(w.PlaceHold(ctx, admin, in))
	if again := controltest.Must[store.Hold](t)(w.PlaceHold(ctx, admin, in)); again.ID != h.ID {
		t.Errorf("a repetition placed hold %s beside %s", again.ID, h.ID)
	}
	other := in
	other.Subject = "eve"
	_, err := w.PlaceHold(ctx, admin, other)
	controltest.Refusal(t, err, run.CodeRequestConflict)
	for name, bad := range map[string]retention.PlaceHold{
		"kind":    {RequestID: "h2", Kind: "X", Subject: "s", Reason: "r"},
		"subject": {RequestID: "h2", Kind: store.HoldRun, Subject: "", Reason: "r"},
		"control": {RequestID: "h2", Kind: store.HoldRun, Subject: "a\nb", Reason: "r"},
		"reason":  {RequestID: "h2", Kind: store.HoldRun, Subject: "s"},
	} {
		_, err := w.PlaceHold(ctx, admin, bad)
		if controltest.CodeOf(err) != run.CodeBadInput {
			t.Errorf("a hold with a bad %s: %v, want BAD_USER_INPUT", name, err)
		}
	}
	lifted := controltest.Must[store.Hold](t)(w.LiftHold(ctx, admin, retention.LiftHold{RequestID: "l1", ID: h.ID,
		Reason: "over"}))
	if lifted.LiftedBy != "dev-admin" || lifted.LiftedAt == nil || lifted.LiftedFor != "over" {
		t.Errorf("the lifted hold is %+v, want who lifted it, when and why", lifted)
	}
	_, err = w.LiftHold(ctx, admin, retention.LiftHold{RequestID: "l2", ID: "nobody", Reason: "over"})
	controltest.Refusal(t, err, run.CodeNotFound)
	for _, row := range []string{"dev-admin PLACE_HOLD ACCEPTED", "dev-admin LIFT_HOLD ACCEPTED"} {
		if !w.HasAuditRow("acme", row) {
			t.Errorf("the audit has no row %q", row)
		}
	}
	if page := controltest.Must[retention.HoldPage](t)(w.Holds(ctx, admin, true, 10, "")); len(page.Holds) != 0 {
		t.Errorf("open holds are %+v, want none", page.Holds)
	}
}
