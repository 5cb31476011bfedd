package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/secret/file"
	"github.com/dvt-engine/dvt/secret/secrettest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	secrettest.Run(t, func(t *testing.T) secrettest.World {
		t.Helper()
		path := filepath.Join(t.TempDir(), "secrets.yaml")
		var mu sync.Mutex
		all := map[string]map[string]string{}
		return secrettest.World{
			Provider: file.New(path),
			Put: func(at string, fields map[string]string) string {
				mu.Lock()
				defer mu.Unlock()
				all[at] = fields
				body, err := yaml.Marshal(all)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, body, 0o600); err != nil {
					t.Fatal(err)
				}
				return ""
			},
			Break: func() {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestFile_RefusesOneThatOthersCanRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	for _, c := range []struct {
		body string
		mode os.FileMode
		want string
	}{
		{"a: text", 0o644, "chmod 600"},
		{"- canary-5b1d9c20", 0o600, "is not a YAML object"},
		{"a: [canary-5b1d9c20]", 0o600, "neither a text nor an object"},
	} {
		if err := os.WriteFile(path, []byte(c.body), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := file.New(path).Read(t.Context(), "a", "")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q with mode %o: %v, want %q", c.body, c.mode, err, c.want)
		}
	}
}
