package artifact_test

import (
	"testing"

	"github.com/dvt-engine/dvt/artifact"
)

// The retention of one server removes a log that another server has read. The other one shows an empty log, and not an
// error of its own: it must not take its memory of the log for a listing that lacks objects.
func TestRead_OfALogThatAnotherProcessRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *artifact.Store {
		s, err := artifact.Open(t.Context(), "file://"+dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	reader, remover := open(), open()
	id := artifact.AttemptID{TenantID: "acme", RunID: "r1", StepID: "s1", LogicalAttempt: 1}
	if err := remover.Append(t.Context(), id, 1, 1, []artifact.Line{{Text: "one"}, {Text: "two"}}); err != nil {
		t.Fatal(err)
	}
	if page, err := reader.Read(t.Context(), id, 1, 10); err != nil || len(page.Lines) != 2 {
		t.Fatalf("the log has %d lines, error %v, want 2", len(page.Lines), err)
	}
	scope := artifact.Scope{Kind: artifact.KindLogs, TenantID: "acme", RunID: "r1"}
	if _, err := remover.Remove(t.Context(), scope, 100); err != nil {
		t.Fatal(err)
	}
	if page, err := reader.Read(t.Context(), id, 1, 10); err != nil || len(page.Lines) != 0 {
		t.Errorf("the removed log has %d lines, error %v, want none", len(page.Lines), err)
	}
}
