package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The owner may run a dvt dev with the file, so dvt must not advise to delete it.
func TestBelongsTo_SendsToTheOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := belongsTo(path, info, os.Geteuid()); err != nil {
		t.Errorf("the own file is refused: %v", err)
	}
	err = belongsTo(path, info, os.Geteuid()+1)
	if err == nil || strings.Contains(err.Error(), "delete") || !strings.Contains(err.Error(),
		"run the command as that user") {
		t.Errorf("the file of another user has the error %v, want the advice to run the command as its owner", err)
	}
}
