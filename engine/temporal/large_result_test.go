package temporal_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/run"
)

// contract: X04, R336
func TestRun_ALargeResultIsNeitherInTheHistoryNorInTheLog(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	result := `{"rows":"` + strings.Repeat("0123456789", 1<<20) + `"}`
	h.steps.result = json.RawMessage(result)
	h.worker(0)
	runID := h.start(document(0, step{id: "s1"}, step{id: "s2", deps: "s1"}))
	st := h.waitForEnd(runID)
	if st.Status != run.Completed {
		t.Fatalf("the run is %s, want COMPLETED", st.Status)
	}
	const most = 256_000
	for _, e := range h.history(runID).Events {
		if n := len(e.String()); n > most {
			t.Errorf("event %d of the history, %s, has %d bytes, want at most %d", e.EventId, e.EventType, n, most)
		}
	}
	for _, e := range h.events(runID) {
		if len(e.Payload) > most {
			t.Errorf("%s of the log has %d bytes, want at most %d", e.Type, len(e.Payload), most)
		}
	}
	for _, s := range st.Steps {
		refs := s.Attempts[0].Artifacts
		if len(refs) != 1 || refs[0].Kind != run.KindCustom || refs[0].SizeBytes != int64(len(result)) {
			t.Fatalf("step %s has the artifacts %+v, want its result", s.StepID, refs)
		}
		body, err := h.evidence.Open(t.Context(), refs[0].URI)
		must(t, err)
		got, err := io.ReadAll(body)
		must(t, err)
		if string(got) != result {
			t.Errorf("the artifact of step %s has %d bytes, want the %d of the result", s.StepID, len(got), len(result))
		}
		_ = body.Close()
	}
}
