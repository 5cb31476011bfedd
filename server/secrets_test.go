package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
)

var secretRuns = flag.Int("secret-runs", 12, "runs of TestSecrets_LeaveNoTrace")

// secretPlan returns a plan whose steps emit a secret in every way that a step has: output of each form, an error, a
// request and its answer.
func secretPlan(n int, url string) []byte {
	const program = `echo "value $TOKEN"; cat "$DVT_SECRETS_DIR/copy"; echo; printf %s "$TOKEN" | base64 -w 0; echo
printf %s "$TOKEN" | od -An -tx1 | tr -d ' \n'; echo; printf %s "$TOKEN" >&2; echo "fatal: $TOKEN is wrong" >&2; exit 1`
	refs := fmt.Sprintf(`[{"provider":"file","key":"token-%d","as":{"env":"TOKEN"}},
		{"provider":"file","key":"token-%d","as":{"file":"copy"}}]`, n, n)
	return []byte(fmt.Sprintf(`{"schemaVersion":"v1.2","metadata":{"planId":"secret-%d","planVersion":"1.0",
		"createdAt":"2026-01-01T00:00:00Z","createdBy":"test","schemaVersion":"v1.2","failurePolicy":{"retryWindowSeconds":0}},
		"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev","repoSha":"%s"},"steps":[
		{"stepId":"call","type":"HTTP_NOTIFY","timeout":"1m","secretRefs":%s,"inputs":{"url":%q,"method":"POST",
			"headers":{"Authorization":"Bearer ${secret:TOKEN}"},"body":{"token":"${secret:TOKEN}"}}},
		{"stepId":"print","type":"COMMAND","timeout":"1m","dependsOn":["call"],"secretRefs":%s,
			"retry":{"maxAttempts":1},"inputs":{"argv":["sh","-c",%q]}}]}`,
		n, strings.Repeat("0", 40), refs, url, refs, program))
}

// Runs whose steps print and send their secrets leave no form of them in the store, the engine's database, the buckets,
// the workspaces, the logs of processes, or the answers of the API.
// contract: X01
func TestSecrets_LeaveNoTrace(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer canary-") {
			called.Add(1)
		}
		_, _ = fmt.Fprintf(w, "you sent %s", r.Header.Get("Authorization"))
	}))
	t.Cleanup(receiver.Close)
	data, address := dataDir(t), testserver.FreeAddress(t)
	must(t, os.MkdirAll(data, 0o700))
	canaries, secrets := make([]string, *secretRuns), ""
	for i := range canaries {
		canaries[i] = fmt.Sprintf("canary-%d-%x", i, time.Now().UnixNano())
		secrets += fmt.Sprintf("acme/dev/token-%d: %s\n", i, canaries[i])
	}
	file := filepath.Join(data, "secrets.yaml")
	must(t, os.WriteFile(file, []byte(secrets), 0o600))
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample", "--log-level", "debug")
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	ids := make([]string, len(canaries))
	for i := range canaries {
		ids[i] = start(t, c, fmt.Sprintf("secret-%d", i), secretPlan(i, receiver.URL))
	}
	answers := ""
	for _, id := range ids {
		r := waitForEnd(t, c, id, 3*time.Minute)
		answer, err := json.Marshal(r)
		must(t, err)
		if r.Status != client.RunStatusFailed || !strings.Contains(string(answer), "fatal: *** is wrong") {
			t.Errorf("run %s ended %s, want FAILED with a masked error:\n%s", id, r.StatusRaw, answer)
		}
		answers += string(answer)
	}
	if n := int(called.Load()); n != len(canaries) {
		t.Errorf("the receiver was called with %d secrets, want %d", n, len(canaries))
	}
	health := get(t, "http://"+address+"/engine/health").body
	if !strings.Contains(health, `"reachable":true`) {
		t.Errorf("the health of dvt dev does not have its file of secrets: %s", health)
	}
	p.terminate()
	must(t, os.Remove(file))
	places := map[string][]byte{"answers of the API": []byte(answers), "log of dvt dev": []byte(p.output())}
	must(t, filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		body, err := os.ReadFile(path)
		places[path] = unpacked(body)
		return err
	}))
	size, masked := 0, 0
	for place, body := range places {
		size += len(body)
		masked += strings.Count(string(body), "value ***")
		for _, canary := range canaries {
			for _, form := range []string{canary, hex.EncodeToString([]byte(canary)),
				base64.RawStdEncoding.EncodeToString([]byte(canary))[:12]} {
				if strings.Contains(string(body), form) {
					t.Errorf("%s contains %q", place, form)
				}
			}
		}
	}
	if masked < len(canaries) {
		t.Errorf("the places have %d masked lines, want at least %d: the test looks in the wrong ones", masked, len(canaries))
	}
	t.Logf("%d runs, %d places, %d bytes scanned", len(canaries), len(places), size)
}

// unpacked returns the bytes of a file, followed by what they are decompressed to: the bucket has compressed artifacts
// and logs.
func unpacked(body []byte) []byte {
	var readers []io.Reader
	if z, err := zstd.NewReader(bytes.NewReader(body)); err == nil {
		defer z.Close()
		readers = append(readers, z)
	}
	if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
		readers = append(readers, z)
	}
	out := body
	for _, r := range readers {
		plain, _ := io.ReadAll(r) // bytes before an error count, too
		out = append(out[:len(out):len(out)], plain...)
	}
	return out
}
