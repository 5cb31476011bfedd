package server_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
)

// encryptedDeployment is an installation in which every connection is encrypted and every secret is in a file.
type encryptedDeployment struct {
	dir              string
	servers, clients *testserver.Authority
	store            *testserver.PostgresServer
	engine           *testserver.TemporalServer
	proxy            *testserver.TLSProxy // in front of engine
	config, worker   string               // files of settings
	journal, api     string               // URLs of the HTTPS server and of the server on loopback
}

const sreToken = "sam-looks-after-the-engine"

func startEncryptedDeployment(t *testing.T) *encryptedDeployment {
	t.Helper()
	e := &encryptedDeployment{dir: t.TempDir(), servers: testserver.NewAuthority(t, "servers"),
		clients: testserver.NewAuthority(t, "clients")}
	e.store = testserver.PostgresTLS(t, e.issueServerCertificate(t), e.clients, "store-first")
	e.engine = testserver.TemporalAlone(t)
	e.proxy = testserver.NewTLSProxy(t, e.engine.Addr, e.issueServerCertificate(t), e.clients, "h2")
	redis := testserver.RedisTLS(t, e.issueServerCertificate(t), e.clients, "--requirepass", "redis-secret")
	e.writeCertificates(t, "1")
	e.writeSecret(t, "worker-token", workerToken)
	e.writeSecret(t, "redis-password", "redis-secret")
	e.writeSecret(t, "store-password", "store-first")
	e.writeSecret(t, "payload-keys", keyLine("k1"))
	e.writeSecret(t, "dispatch-keys", keyLine("d1"))
	dsn, err := url.Parse(e.store.DSN)
	must(t, err)
	e.config = filepath.Join(e.dir, "dvt.yaml")
	must(t, os.WriteFile(e.config, fmt.Appendf(nil, `
store: postgres://%[2]s@%[3]s/dvt?sslmode=verify-full&sslrootcert=%[1]s/ca.pem&sslcert=%[1]s/app.pem&sslkey=%[10]s
store-password-file: %[1]s/store-password
redis: rediss://%[4]s/0
redis-tls-ca: %[1]s/redis-ca.pem
redis-tls-cert: %[1]s/redis.pem
redis-tls-key: %[1]s/redis.key
redis-password-file: %[1]s/redis-password
temporal: %[5]s
temporal-namespace: %[6]s
temporal-tls: on
temporal-tls-ca: %[1]s/ca.pem
temporal-tls-cert: %[1]s/dvt.pem
temporal-tls-key: %[1]s/dvt.key
temporal-tls-server-name: temporal.internal
listen-tls-cert: %[1]s/server.pem
listen-tls-key: %[1]s/server.key
listen-tls-client-ca: %[1]s/clients.pem
payload-keys-file: %[1]s/payload-keys
dispatch-keys-file: %[1]s/dispatch-keys
codec-origins: [https://temporal.example]
operators-tenant: acme
artifacts: file://%[1]s/artifacts?create_dir=true&no_tmp_dir=true
heartbeat: 5s
accounts:
  - {id: ada, tenant: acme, tokenSha256: %[7]s, grants: [{role: ENGINEER, project: shop, environment: dev}]}
  - {id: sam, tenant: acme, tokenSha256: %[8]s, grants: [{role: SRE, project: "*", environment: "*"}]}
  - {id: steps-1, worker: true, serves: [acme], tokenSha256: %[9]s}
`, e.dir, testserver.SecureRole, dsn.Host, redis, e.proxy.Addr, e.engine.Namespace,
		tokenHash(adaToken), tokenHash(sreToken), tokenHash(workerToken), filepath.Join(e.dir, "app.key")), 0o600))
	journal, api := testserver.FreeAddress(t), testserver.FreeAddress(t)
	e.journal, e.api = "https://"+journal, "http://"+api
	e.worker = filepath.Join(e.dir, "worker.yaml")
	must(t, os.WriteFile(e.worker, fmt.Appendf(nil, `
server: %[2]s
server-tls-ca: %[1]s/ca.pem
server-tls-cert: %[1]s/dvt.pem
server-tls-key: %[1]s/dvt.key
server-tls-name: dvt.internal
worker-token-file: %[1]s/worker-token
temporal: %[3]s
temporal-namespace: %[4]s
temporal-tls-ca: %[1]s/ca.pem
temporal-tls-cert: %[1]s/dvt.pem
temporal-tls-key: %[1]s/dvt.key
temporal-tls-server-name: temporal.internal
dispatch-keys-file: %[1]s/dispatch-keys
`, e.dir, e.journal, e.proxy.Addr, e.engine.Namespace), 0o600))
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--config", e.config)
	if <-migrate.exited; !migrate.cmd.ProcessState.Success() {
		t.Fatalf("dvt migrate: %s", migrate.output())
	}
	spawn(t, "server with TLS", nil, "server", "--config", e.config, "--listen", journal)
	spawn(t, "server on loopback", nil, "server", "--config", e.config, "--listen", api,
		"--listen-tls-cert=", "--listen-tls-key=", "--listen-tls-client-ca=")
	spawn(t, "control worker", nil, "worker", "--config", e.config, "--queues", "tq-control-dev", "--workspace",
		filepath.Join(e.dir, "control"))
	must(t, os.Mkdir(filepath.Join(e.dir, "gates"), 0o700))
	spawn(t, "data worker", nil, "worker", "--config", e.worker, "--queues", "tq-data-dev", "--workspace",
		filepath.Join(e.dir, "data"), "--sandbox-read", filepath.Join(e.dir, "gates"))
	waitUntilReady(t, e.api)
	return e
}

// issueServerCertificate issues a certificate for all servers of the installation.
func (e *encryptedDeployment) issueServerCertificate(t *testing.T) testserver.Pair {
	t.Helper()
	return e.servers.Issue(t, "server", "127.0.0.1", "temporal.internal", "dvt.internal")
}

// writeCertificates writes certificates and trusted authorities for all processes, from the current authorities.
// generation is part of the name in the certificate for Temporal.
func (e *encryptedDeployment) writeCertificates(t *testing.T, generation string) {
	t.Helper()
	testserver.WriteFile(t, e.dir, "ca.pem", e.servers.PEM)
	testserver.WriteFile(t, e.dir, "clients.pem", e.clients.PEM)
	e.clients.Issue(t, testserver.SecureRole).Write(t, e.dir, "app")
	e.clients.Issue(t, "dvt-"+generation).Write(t, e.dir, "dvt")
	e.issueServerCertificate(t).Write(t, e.dir, "server")
	if generation == "1" { // the test's Redis keeps its certificates
		testserver.WriteFile(t, e.dir, "redis-ca.pem", e.servers.PEM)
		e.clients.Issue(t, "redis").Write(t, e.dir, "redis")
	}
}

func (e *encryptedDeployment) writeSecret(t *testing.T, name string, lines ...string) {
	t.Helper()
	testserver.WriteFile(t, e.dir, name, []byte(strings.Join(lines, "\n")+"\n"))
}

// keyLine returns the line of a key file for the key id.
func keyLine(id string) string {
	return id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 16)))
}

// Every connection uses a private authority. The test replaces every certificate, authority, password and key while a
// run is open, without restarting a process.
//
// contract: T115, T203
func TestEncrypted_EverythingIsReplacedDuringARun(t *testing.T) {
	t.Parallel()
	e := startEncryptedDeployment(t)
	gate := filepath.Join(e.dir, "gates", "gate")
	wait := fmt.Sprintf(`{"stepId":"canary-waits","type":"COMMAND",
		"inputs":{"argv":["/bin/sh","-c","until test -e %s; do sleep 0.1; done"]},
		"timeout":"5m","retry":{"maxAttempts":1}}`, gate)
	after := `{"stepId":"canary-after","type":"COMMAND","inputs":{"argv":["echo","canary-argument"]},
		"timeout":"1m","dependsOn":["canary-waits"],"retry":{"maxAttempts":1}}`
	end := `{"stepId":"canary-end","type":"NOOP","inputs":{},"timeout":"1m","dependsOn":["canary-after"]}`
	c := client.New(e.api, adaToken)
	runID := start(t, c, "encrypted", stepsPlan("canary-plan", wait, after, end))
	waitUntil(t, "the first step runs", time.Minute, func() bool {
		out, err := client.ShowRun(t.Context(), c, runID, nil)
		return err == nil && out.Run != nil && out.Run.StepCounts.Running == 1
	})
	if e.proxy.Clients("dvt-1") < 3 {
		t.Errorf("%d connections used the first certificate, want those of two servers and two workers",
			e.proxy.Clients("dvt-1"))
	}
	e.servers, e.clients = testserver.NewAuthority(t, "servers 2"), testserver.NewAuthority(t, "clients 2")
	e.writeCertificates(t, "2")
	e.writeSecret(t, "store-password", "store-second")
	e.writeSecret(t, "dispatch-keys", keyLine("d2"), keyLine("d1"))
	e.writeSecret(t, "payload-keys", "# the first one encrypts", keyLine("k2"), keyLine("k1"))
	e.proxy.Replace(t, e.issueServerCertificate(t), e.clients)
	e.store.ReplaceCredentials(t, e.issueServerCertificate(t), e.clients, "store-second")
	e.proxy.Cut()
	waitUntil(t, "a client shows Temporal the second certificate", time.Minute,
		func() bool { return e.proxy.Clients("dvt-2") > 0 })
	must(t, os.WriteFile(gate, nil, 0o600))
	if r := waitForEnd(t, c, runID, 2*time.Minute); r.Status != client.RunStatusCompleted {
		t.Errorf("the run ended %s, want COMPLETED", r.StatusRaw)
	}
	stored := e.engine.ReadDatabase(t)
	for _, id := range []string{runID, "k1", "k2", "d1", "d2"} {
		if !bytes.Contains(stored, []byte(id)) {
			t.Errorf("Temporal's database does not show %s", id)
		}
	}
	if bytes.Contains(stored, []byte("canary")) {
		t.Error("Temporal's database contains the name or the input of a step in plain text")
	}
	e.checkCodecServer(t, runID)
	e.checkCapture(t, runID)
}

// checkCapture checks that the history of a run is captured as Temporal has it, encrypted, that this version replays
// it, and that a repetition writes nothing.
func (e *encryptedDeployment) checkCapture(t *testing.T, runID string) {
	t.Helper()
	dir := filepath.Join(e.dir, "histories")
	capture := []string{"workflow", "capture", dir, "--config", e.config}
	waitUntil(t, "the history of the run is captured", 30*time.Second, func() bool {
		expectCommand(t, 0, capture, "0 differ") // the index of Temporal is a moment behind
		found, err := filepath.Glob(filepath.Join(dir, runID+"-*.json"))
		return err == nil && len(found) == 1
	})
	expectCommand(t, 0, capture, "0 histories written and replayed")
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	for _, name := range found {
		info, err := os.Stat(name)
		must(t, err)
		content, err := os.ReadFile(name)
		must(t, err)
		if info.Mode().Perm() != 0o600 || bytes.Contains(content, []byte("canary")) || filepath.Ext(name) != ".json" {
			t.Errorf("%s has the mode %s, or plain text; want 0600, encrypted and complete", name, info.Mode().Perm())
		}
	}
	if len(found) > 0 {
		expectCommand(t, 0, []string{"workflow", "replay", found[0], "--payload-keys-file",
			filepath.Join(e.dir, "payload-keys"), "--dispatch-keys-file", filepath.Join(e.dir, "dispatch-keys")})
	}
	expectCommand(t, 2, append(capture, "--limit", "0"), "--limit must be 1 to 1000")
	expectCommand(t, 2, []string{"workflow", "capture", dir}, "--temporal")
}

// checkCodecServer checks that Temporal's CLI shows decrypted payloads through the codec server, but only with an
// operator's token.
func (e *encryptedDeployment) checkCodecServer(t *testing.T, runID string) {
	t.Helper()
	show := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), testserver.TemporalCLI(t), append([]string{
			"workflow", "show", "--address", e.engine.Addr, "--namespace", e.engine.Namespace, "-w",
			"dvt/acme/" + runID, "--detailed",
		}, args...)...)
		cmd.Env = append(environmentWithoutDVT(), "HOME="+e.dir, "SSL_CERT_FILE="+filepath.Join(e.dir, "ca.pem"))
		out, _ := cmd.CombinedOutput() // the CLI fails when the codec server refuses
		return string(out)
	}
	endpoint := "https://" + strings.TrimPrefix(e.journal, "https://") + "/engine/codec"
	for name, c := range map[string]struct {
		args []string
		want bool
	}{
		"without a codec": {nil, false}, "without a token": {[]string{"--codec-endpoint", endpoint}, false},
		"an engineer's token": {[]string{"--codec-endpoint", endpoint, "--codec-auth", "Bearer " + adaToken}, false},
		"an operator's token": {[]string{"--codec-endpoint", endpoint, "--codec-auth", "Bearer " + sreToken}, true},
	} {
		if out := show(c.args...); strings.Contains(out, "canary-waits") != c.want {
			t.Errorf("%s: the CLI shows the name of a step %t, want %t:\n%.2000s", name, !c.want, c.want, out)
		}
	}
	for origin, want := range map[string]int{"https://temporal.example": http.StatusOK,
		"https://evil.example": http.StatusForbidden, "": http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.api+"/engine/codec/decode",
			strings.NewReader(`{"payloads":[]}`))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+sreToken)
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		_ = res.Body.Close()
		allowed := res.Header.Get("Access-Control-Allow-Origin")
		if res.StatusCode != want || (want == http.StatusOK) != (allowed == origin) {
			t.Errorf("a decode from the origin %q: %d, readable by pages of %q, want %d and readable only by that origin",
				origin, res.StatusCode, allowed, want)
		}
	}
	res, err := http.Post(e.api+"/engine/codec/encode", "application/json", strings.NewReader(`{"payloads":[]}`))
	must(t, err)
	_ = res.Body.Close()
	if res.StatusCode == http.StatusOK {
		t.Error("the codec server encodes payloads, want only decoding")
	}
}
