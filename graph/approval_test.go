package graph_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
)

// awaitingApproval returns a run with one of its two approvals.
func awaitingApproval() control.RunView {
	a := openApproval()
	return control.RunView{
		State: run.State{Header: run.Header{Identity: identity("r2"), Rev: 1, Status: run.Pending, CreatedAt: instant,
			TriggeredBy: "eva"}},
		Epoch: "e1", AsOf: instant, Approval: &a,
	}
}

func openApproval() runs.Approval {
	return runs.Approval{
		RunID: "r2", Required: 2, CreatedAt: instant, ExpiresAt: instant.Add(24 * time.Hour), Open: true,
		Decisions: []runs.ApprovalDecision{{Principal: "paul", Approved: true, Reason: "fine", At: instant}},
	}
}

func (f *fake) Approval(_ context.Context, _ authz.Principal, runID string) (*runs.Approval, error) {
	f.approvalReads.Add(1)
	if runID != "r2" {
		return nil, nil //nolint:nilnil // only r2 needed an approval
	}
	return new(openApproval()), nil
}

func (f *fake) Approvals(_ context.Context, _ authz.Principal, first int, after string) (control.RunsPage, error) {
	if first != 1 || after != "c0" {
		return control.RunsPage{}, errNotFound
	}
	return control.RunsPage{Runs: []control.RunView{awaitingApproval()}, Cursors: []string{"c1"}, HasNext: true,
		HasPrev: true}, nil
}

func (f *fake) ApproveRun(_ context.Context, _ authz.Principal, in runs.ApproveRun) (control.RunView, error) {
	if in.RunID != "r2" || in.RequestID != "q1" || !in.Reject || in.Reason != "no" || in.ExpectedRunSeq == nil {
		return control.RunView{}, errNotFound
	}
	return awaitingApproval(), nil
}

func serviceState(mode admission.EngineMode) admission.ServiceState {
	return admission.ServiceState{Mode: mode, ModeReason: "maintenance", ModeSince: instant}
}

func (f *fake) ServiceState(context.Context, authz.Principal) (admission.ServiceState, error) {
	return admission.ServiceState{Mode: admission.ModeNormal, Degraded: true, RetryAfter: 5 * time.Second,
		ActiveRuns: new(int64(7))}, nil
}

func (f *fake) SetEngineMode(_ context.Context, _ authz.Principal, in admission.SetEngineMode) (admission.ModeChange,
	error) {
	return admission.ModeChange{ServiceState: serviceState(in.Mode), Change: control.Change{Action: "SET_ENGINE_MODE",
		RequestID: in.RequestID, Actor: "sid", At: instant, Version: 3}}, nil
}

func (f *fake) FreezeTenant(_ context.Context, _ authz.Principal, in admission.FreezeTenant) (admission.ModeChange,
	error) {
	return admission.ModeChange{
		ServiceState: admission.ServiceState{Mode: admission.ModeNormal, Frozen: in.Frozen, FrozenReason: in.Reason + " of " +
			in.TenantID, FrozenSince: instant},
		Change: control.Change{Action: "FREEZE_TENANT", RequestID: in.RequestID, Actor: "sid", At: instant, Version: 1},
	}, nil
}

func (f *fake) WatchService(context.Context, authz.Principal) (graph.Stream[admission.ServiceState], error) {
	return stream[admission.ServiceState](&control.Error{Code: run.CodeForbidden, Message: "No longer."},
		serviceState(admission.ModeNormal), serviceState(admission.ModeReadOnly))
}

func TestGolden_ApprovalAndModes(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	list := slices.DeleteFunc(costly("Run.steps"), func(f string) bool { return f == "Run.approval" })
	for name, operation := range map[string]string{
		"approvals":  `{ approvals(first: 1, after: "c0")` + selectAll(t, "RunConnection", list...) + `}`,
		"approveRun": `mutation { approveRun(input: {runId: "r2", requestId: "q1", decision: REJECT, reason: "no", expectedRunSeq: 0})` + selectAll(t, "RunPayload", list...) + `}`,
		"service":    `{ service` + selectAll(t, "ServiceState") + `}`,
		"setEngineMode": `mutation { setEngineMode(input: {requestId: "q1", mode: DRAINED, reason: "maintenance"})` +
			selectAll(t, "ServicePayload") + `}`,
		"freezeTenant":   `mutation { freezeTenant(input: {requestId: "q1", tenantId: "globex", frozen: true, reason: "leak"})` + selectAll(t, "ServicePayload") + `}`,
		"serviceUpdates": `subscription { serviceUpdates` + selectAll(t, "ServiceState") + `}`,
	} {
		accept := "application/json"
		if strings.HasPrefix(operation, "subscription") {
			accept = "text/event-stream"
		}
		got := a.do(http.MethodPost, "/graphql", request(operation, nil), "Accept", accept)
		if got.status != http.StatusOK {
			t.Fatalf("%s: status %d: %s", name, got.status, got.body)
		}
		golden(t, name, got.body)
	}
}

// The list of approvals reads them with the runs, so that its rows need no reads of their own.
func TestApprovals_TheListReadsThemWithItsRuns(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	a := serve(t, f)
	if got := a.query(`{ approvals(first: 1, after: "c0") { edges { node { approval { required } } } } }`,
		nil); !strings.Contains(got, `"required":2`) {
		t.Fatalf("approvals answered %s, want a run that requires two", got)
	}
	if n := f.approvalReads.Load(); n != 0 {
		t.Errorf("the rows read %d approvals, want 0", n)
	}
}

func (f *fake) MyDecisions(_ context.Context, p authz.Principal, limit int) ([]runs.Approval, error) {
	a := openApproval()
	a.PlanID, a.PlanVersion, a.ProjectID, a.EnvironmentID = "nightly", "1.0", "shop", "prod"
	a.Decisions = append(a.Decisions, runs.ApprovalDecision{Principal: p.ID, Reason: "no", At: instant})
	return []runs.Approval{a}[:min(limit, 1)], nil
}

func (f *fake) RunRequest(_ context.Context, _ authz.Principal, runID string) (runs.RunRequest, error) {
	if runID != "r2" {
		return runs.RunRequest{}, nil
	}
	return runs.RunRequest{Steps: 60, Params: json.RawMessage(`{"day":"2026-11-21"}`)}, nil
}
