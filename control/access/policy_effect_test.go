package access_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
)

// warnings returns what the preview of a change says, after it was compared with the answer of the change itself.
func (w *world) warnings(change func(*authz.Document)) []string {
	w.T.Helper()
	admin, doc := w.Principal("dev-admin"), w.Document(change)
	said := controltest.Must[access.PolicyEffect](w.T)(w.PreviewPolicy(w.T.Context(), admin, doc))
	now := controltest.Must[access.Policy](w.T)(w.Policy(w.T.Context(), admin))
	made := controltest.Must[access.Policy](w.T)(w.SetPolicy(w.T.Context(), admin, access.SetPolicy{
		RequestID: requestOf(now.Version), ExpectedVersion: now.Version, Document: doc, Reason: "test"}))
	if diff := cmp.Diff(said, access.PolicyEffect{Changed: made.Changed, Warnings: made.Warnings}); diff != "" {
		w.T.Errorf("the preview and the answer of the change (-preview +answer):\n%s", diff)
	}
	return said.Warnings
}

func requestOf(version int64) string { return strings.Repeat("v", int(version)+1) }

func approvals(n int) []authz.Approval {
	return []authz.Approval{{ProjectID: "shop", EnvironmentID: "prod", Required: n}}
}

func TestSetPolicy_WarnsWhenTooFewPeopleCanApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, want := range []string{
		"1 approval is required in shop / prod, and only dev-planner can approve there: a run that one of them requests " +
			"cannot start.",
		"2 approvals are required in shop / prod, but only dev-planner can approve there, so no run can start.",
	} {
		got := w.warnings(func(d *authz.Document) { d.Approvals = approvals(i + 1) })
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%d required (-want +got):\n%s", i+1, diff)
		}
	}
	enough := w.warnings(func(d *authz.Document) {
		for _, id := range []string{"dev-admin", "dev-operator"} {
			d.Grants = append(d.Grants, grantOf(id, authz.Planner, "shop", "*"))
		}
	})
	group := w.warnings(func(d *authz.Document) {
		d.Approvals = approvals(5)
		d.Grants = append(d.Grants, grantOf(authz.GroupID("release"), authz.Planner, "shop", "*"))
	})
	if len(enough) > 0 || len(group) > 0 && strings.Contains(group[0], "group:release") {
		t.Errorf("warnings with three approvers: %q, with a group: %q", enough, group)
	}
}

func TestSetPolicy_CountsThoseWhoLoseARight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.warnings(func(d *authz.Document) {
		controltest.WithoutGrants("dev-viewer")(d)
		for i, g := range d.Grants {
			switch g.Principal {
			case "dev-engineer":
				d.Grants[i].Role = authz.Operator
			case "dev-operator":
				d.Grants[i].Role = authz.Engineer // more than before
			}
		}
	})
	want := []string{"2 principals lose a right: dev-engineer, dev-viewer."}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSetPolicy_WarnsThatABreakGlassEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ChangePolicy(func(d *authz.Document) {
		d.BreakGlass = []authz.BreakGlass{{Principal: "dev-engineer", Role: authz.Admin, MaxMinutes: 30}}
	})
	controltest.Must[access.BreakGlassGrant](t)(w.BreakGlass(t.Context(), w.Engineer(), access.BreakGlass{
		RequestID: "b", Role: authz.Admin, Minutes: 15, Reason: "night"}))
	row := w.AuditRows("acme")
	if !slices.ContainsFunc(row, func(r string) bool { return strings.Contains(r, "BREAK_GLASS ACCEPTED") }) {
		t.Errorf("the audit is %q, want the break-glass", row)
	}
	history := controltest.Must[access.PolicyPage](t)(w.PolicyHistory(t.Context(), w.Principal("dev-admin"), 10, 0))
	if only := history.Policies; len(only) != 2 || !only[0].OnlyBreakGlass || only[1].OnlyBreakGlass {
		t.Errorf("the history is %+v, want that only its newest version is of break-glass", history)
	}
	got := w.warnings(func(d *authz.Document) {
		d.Grants = slices.DeleteFunc(d.Grants, func(g authz.PrincipalGrant) bool { return g.BreakGlass })
	})
	if len(got) != 2 || !strings.HasPrefix(got[0], "The break-glass of dev-engineer (Admin until ") ||
		!strings.HasSuffix(got[0], "ends at once.") || !strings.HasPrefix(got[1], "1 principal loses a right: dev-engineer") {
		t.Errorf("the warnings are %q, want that the break-glass ends and who loses rights", got)
	}
}

// A policy of thousands of rules has an answer of bounded size after bounded work, which ends with the request.
func TestPreviewPolicy_IsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	doc := w.Document(func(d *authz.Document) {
		for i := range 3_000 {
			project := fmt.Sprintf("p%d", i)
			d.Approvals = append(d.Approvals, authz.Approval{ProjectID: project, EnvironmentID: "prod", Required: 3})
			d.Grants = append(d.Grants, grantOf(project, authz.Viewer, project, "*"))
		}
	})
	said := controltest.Must[access.PolicyEffect](t)(w.PreviewPolicy(t.Context(), w.Principal("dev-admin"), doc))
	if n := len(said.Warnings); n != 51 || said.Warnings[50] != "and 151 more warnings" {
		t.Errorf("there are %d warnings, want 50 and the number of the others; the last is %q", n, said.Warnings[n-1])
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := w.PreviewPolicy(gone, w.Principal("dev-admin"), doc); err == nil {
		t.Error("the preview went on after its request had ended")
	}
}

func TestPreviewPolicy_NeedsReadPolicyAndNamesViolations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	doc := w.Document(func(d *authz.Document) { d.Approvals = approvals(11) })
	_, err := w.PreviewPolicy(t.Context(), w.Principal("dev-admin"), doc)
	if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != 1 {
		t.Errorf("the violations are %+v, want one", e.Violations)
	}
	_, err = w.PreviewPolicy(t.Context(), w.Engineer(), doc)
	controltest.Refusal(t, err, run.CodeForbidden)
}

// Separation of duties excludes the requester and the approvers, so their names send people to the wrong colleague.
func TestWhoCould_LeavesOutThoseInvolvedInTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.CreateManual("r", "look")
	ask := func() []string {
		return controltest.Must[[]string](t)(w.WhoCould(t.Context(), w.Principal("dev-admin"),
			access.WhoCould{Action: authz.CompleteManual, RunID: id}))
	}
	if names := ask(); slices.Contains(names, "dev-engineer") || !slices.Contains(names, "dev-admin") {
		t.Errorf("they are %v, want dev-admin and not the requester dev-engineer", names)
	}
	w.ChangePolicy(func(d *authz.Document) { d.SOD.CompleteManual = false })
	if names := ask(); !slices.Contains(names, "dev-engineer") {
		t.Errorf("without separation of duties they are %v, want dev-engineer among them", names)
	}
	w.ChangePolicy(func(d *authz.Document) {
		d.SOD.CompleteManual, d.Approvals = true, []authz.Approval{{ProjectID: "*", EnvironmentID: "*", Required: 1}}
		d.Grants = append(d.Grants, grantOf("dev-admin", authz.Planner, "*", "*"))
	})
	id = controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Principal("dev-operator"),
		controltest.StartOf("r2", controltest.ManualPlan("look")))).View.Run.RunID
	if _, err := w.ApproveRun(t.Context(), w.Principal("dev-admin"), controltest.ApprovalOf(id, "a")); err != nil {
		t.Fatal(err)
	}
	if names := ask(); slices.Contains(names, "dev-admin") || !slices.Contains(names, "dev-engineer") {
		t.Errorf("they are %v, want dev-engineer and not dev-admin, who approved", names)
	}
}

// A person decides once about a run, so that the list must not send a colleague to somebody who has.
func TestWhoCould_LeavesOutThoseWhoHaveDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ChangePolicy(func(d *authz.Document) {
		d.Approvals = []authz.Approval{{ProjectID: "*", EnvironmentID: "*", Required: 2}}
	})
	id := w.CreateQueued("r", "s1")
	ask := func() []string {
		return controltest.Must[[]string](t)(w.WhoCould(t.Context(), w.Principal("dev-admin"),
			access.WhoCould{Action: authz.Approve, RunID: id}))
	}
	if names := ask(); !slices.Contains(names, "dev-planner") {
		t.Errorf("before the decision they are %v, want dev-planner among them", names)
	}
	if _, err := w.ApproveRun(t.Context(), w.Principal("dev-planner"), controltest.ApprovalOf(id, "a")); err != nil {
		t.Fatal(err)
	}
	if names := ask(); slices.Contains(names, "dev-planner") {
		t.Errorf("they are %v, want nobody who has approved already", names)
	}
}
