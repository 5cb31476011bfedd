package export

import (
	"errors"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
)

// A log that is gone reads as an empty one. The export must not take it for a log without lines, which nothing would
// name.
func TestWriteLog_ALogThatIsGoneIsNoEmptyLog(t *testing.T) {
	t.Parallel()
	bucket, err := artifact.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	e := &exporter{Config: Config{Bucket: bucket}}
	id := artifact.AttemptID{TenantID: "acme", RunID: "r", StepID: "s", LogicalAttempt: 1}
	if err := e.writeLog(t.Context(), &out{}, id); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("the log of a step that is gone was written: %v, want ErrNotFound", err)
	}
}
