package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// A provider that a worker cannot use is seen in the health of the server, and so is its recovery.
// contract: H01
func TestSecrets_AProviderThatIsDownIsSeen(t *testing.T) {
	t.Parallel()
	data, address := dataDir(t), testserver.FreeAddress(t)
	must(t, os.MkdirAll(data, 0o700))
	secrets, file := filepath.Join(data, "local.yaml"), filepath.Join(data, "providers.yaml")
	must(t, os.WriteFile(file, []byte(fmt.Sprintf("providers: [{name: local, kind: file, file: %s}]", secrets)), 0o600))
	spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--secrets", file)
	waitUntilReady(t, "http://"+address)
	type check struct {
		Status    string
		Reachable *bool
		LatencyMS *int64
	}
	until := func(status string, reachable bool) {
		t.Helper()
		var body string
		for deadline := time.Now().Add(testtime.Of(90 * time.Second)); time.Now().Before(deadline); time.Sleep(time.Second) {
			body = get(t, "http://"+address+"/engine/health").body
			var h struct{ Checks map[string]check }
			must(t, json.Unmarshal([]byte(body), &h))
			if c := h.Checks["secretsProvider"]; c.Status == status && c.Reachable != nil && *c.Reachable == reachable &&
				c.LatencyMS != nil {
				return
			}
		}
		t.Fatalf("the check of secrets is not %s with reachable %t: %s", status, reachable, body)
	}
	until("unhealthy", false)
	must(t, os.WriteFile(secrets, []byte("acme/dev/token: value-1234\n"), 0o600))
	until("healthy", true)
}
