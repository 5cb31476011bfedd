// Package configtest reads settings for tests as a command reads them.
package configtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/server/config"
)

// Load reads settings from a file with this content, from the environment and from the flags args. It returns the
// error of config.Load.
func Load(t *testing.T, dev bool, file string, args ...string) (config.Config, error) {
	t.Helper()
	f := pflag.NewFlagSet("dvt", pflag.ContinueOnError)
	config.Flags(f, "listen", "log-level", "heartbeat", "concurrency", "duties", "no-sample", "allow-private",
		"plan-roots", "store")
	f.String("config", "", "")
	if file != "" {
		name := filepath.Join(t.TempDir(), "dvt.yaml")
		if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", name)
	}
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return config.Load(f, dev)
}

// MustLoad is Load of settings that are valid.
func MustLoad(t *testing.T, dev bool, file string, args ...string) config.Config {
	t.Helper()
	c, err := Load(t, dev, file, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
