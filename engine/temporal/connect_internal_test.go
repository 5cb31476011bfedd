package temporal

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/dvt-engine/dvt/run"
)

func TestSDKLogger_ShowsFaultsAndHidesStops(t *testing.T) {
	var out bytes.Buffer
	log := sdklog.With(newSDKLogger(slog.New(slog.NewTextHandler(&out, nil))), "Queue", "q")
	log.Error("Activity error.", "Error", temporal.NewCanceledError())
	if out.Len() > 0 {
		t.Errorf("a stop has the line %q, want none", out.String())
	}
	log.Error("Activity error.", "Error", errors.New("the journal refused"))
	if !strings.Contains(out.String(), "level=ERROR") || !strings.Contains(out.String(), "the journal refused") {
		t.Errorf("a fault has the lines %q, want one at ERROR", out.String())
	}
}

// contract: T63
func TestSDKLogger_HasTheKeysOfDvt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := sdklog.With(newSDKLogger(slog.New(slog.NewJSONHandler(&out, nil))), "Namespace", "dvt", "TaskQueue", "q",
		"WorkerID", "w", "WorkflowID", WorkflowID(run.Identity{TenantID: "acme", RunID: "r1"}), "RunID", "e1",
		"ActivityID", "load/2.1", "ActivityType", "execute", "Attempt", 3)
	log.Warn("Activity error.", "Error", errors.New("refused"))
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "time")
	want := map[string]any{"level": "WARN", "msg": "Activity error.", "namespace": "dvt", "queue": "q", "worker": "w",
		"runId": "r1", "tenantId": "acme", "engineRunId": "e1", "stepId": "load", "dispatch": "2.1", "activity": "execute",
		"try": 3.0, "attemptId": "2.3", "error": "refused"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the line (-want +got):\n%s", diff)
	}
	out.Reset()
	newSDKLogger(slog.New(slog.NewJSONHandler(&out, nil))).Warn("Activity error.", "Attempt", 1, "ActivityID", "load/2.4")
	if strings.Contains(out.String(), "attemptId") || !strings.Contains(out.String(), `"dispatch":"2.4"`) {
		t.Errorf("the line of a later dispatch is %s, want no attemptId, because the SDK does not know it", out.String())
	}
	out.Reset()
	sdklog.With(newSDKLogger(slog.New(slog.NewJSONHandler(&out, nil))), "WorkflowID", "a-stranger's").Info("started")
	if !strings.Contains(out.String(), `"workflowId":"a-stranger's"`) {
		t.Errorf("the line of a workflow that is not dvt's is %s, want its workflowId and no runId", out.String())
	}
}
