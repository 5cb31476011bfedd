package server_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
)

// An owner.yaml without the bucket would erase the rows only, and certify that everything is gone.
func TestOpenErasing_NeedsTheBucketAndTheEngineOfTheServers(t *testing.T) {
	t.Parallel()
	f := pflag.NewFlagSet("erase", pflag.ContinueOnError)
	f.String("store", "", "")
	f.String("data", "", "")
	if err := f.Parse([]string{"--store=postgres://owner@127.0.0.1:1/dvt",
		"--data=" + filepath.Join(t.TempDir(), "new")}); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(f, false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.OpenErasing(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "artifacts is missing") ||
		!strings.Contains(err.Error(), "temporal is missing") {
		t.Errorf("settings without artifacts and temporal give %v, want an error that names both", err)
	}
}
