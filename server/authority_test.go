package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/examples"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

const (
	adminToken  = "ana-has-a-long-token" // Admin in acme
	leaverToken = "vic-has-a-long-token" // Viewer in acme
)

// policyDelay is the longest time until a change of the policy holds on all servers.
const policyDelay = 2 * time.Second

// Two servers share a database. A change of the policy on one holds on the other within 2 s: streams of a viewer who
// lost the right end with FORBIDDEN.
// contract: S16, T178
func TestAuthority_AChangeReachesTheOtherServer(t *testing.T) {
	t.Parallel()
	dsn, redis, engine := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "dvt.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `
store: %s
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
artifacts: file://%s/artifacts?create_dir=true&no_tmp_dir=true
accounts:
  - {id: ana, tenant: acme, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: vic, tenant: acme, tokenSha256: %s, grants: [{role: VIEWER, project: "*", environment: "*"}]}
`, dsn, redis.Addr, engine.Addr, engine.Namespace, dir, tokenHash(adminToken), tokenHash(leaverToken)), 0o600))
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	addressA, addressB := testserver.FreeAddress(t), testserver.FreeAddress(t)
	spawn(t, "server A", nil, "server", "--config", config, "--listen", addressA)
	spawn(t, "server B", nil, "server", "--config", config, "--listen", addressB)
	urlA, urlB := "http://"+addressA, "http://"+addressB
	waitUntilReady(t, urlA)
	waitUntilReady(t, urlB)
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })

	ana := client.New(urlA, adminToken)
	doc, err := examples.Plan(examples.Shop, examples.Values{NotifyURL: "http://" + addressA + "/dev/notify", Data: dir})
	must(t, err)
	runID := start(t, ana, "authority", doc)
	secret := createToken(t, client.New(urlA, leaverToken))

	viewers := map[string]*viewer{"vic": watch(t, client.New(urlB, leaverToken), runID)}
	viewers["vic"].waitForLive(1, 10*time.Second)
	time.Sleep(testtime.Of(policyDelay)) // a new token also takes this time to reach all servers
	viewers["her token"] = watch(t, client.New(urlB, secret), runID)
	viewers["her token"].waitForLive(1, 10*time.Second)

	before, err := client.ShowPolicy(t.Context(), ana)
	must(t, err)
	_, err = client.SetPolicy(t.Context(), ana, client.SetPolicyInput{
		RequestId: "without-vic", ExpectedVersion: before.Policy.Version, Reason: "she left",
		Document: client.PolicyInput{
			Sod: client.PolicySodInput{Approve: true, CompleteManual: true}, Approvals: []client.PolicyApprovalInput{},
			BreakGlass: []client.PolicyBreakGlassInput{},
			Grants:     []client.PolicyGrantInput{{Principal: "ana", Role: "ADMIN", ProjectId: "*", EnvironmentId: "*"}},
		},
	})
	must(t, err)
	changed := time.Now()
	if out, err := client.ShowRun(t.Context(), client.New(urlA, leaverToken), runID, nil); err != nil || out.Run != nil {
		t.Errorf("on the server of the change, vic without rights reads %v (%v), want no run", out, err)
	}
	appendReceipts(t, s, runID)
	for name, v := range viewers {
		select {
		case err := <-v.done:
			var named *client.Error
			if !errors.As(err, &named) || named.Code != "FORBIDDEN" {
				t.Errorf("the stream of %s ended with %v, want FORBIDDEN", name, err)
			}
			if took := time.Since(changed); took > testtime.Of(policyDelay) {
				t.Errorf("the stream of %s ended %v after the change, want %v or less", name, took, policyDelay)
			}
		case <-time.After(testtime.Of(2 * policyDelay)):
			t.Fatalf("the stream of %s goes on %v after the change", name, 2*policyDelay)
		}
	}
	if out, err := client.ShowRun(t.Context(), client.New(urlB, leaverToken), runID, nil); err != nil || out.Run != nil {
		t.Errorf("on the other server, vic without rights reads %v (%v), want no run", out, err)
	}
	checkGuessesAreLimited(t, urlB)
}

// createToken creates an API token with the rights of a viewer and returns its secret.
func createToken(t *testing.T, c *client.Client) string {
	t.Helper()
	out, err := client.CreateToken(t.Context(), c, client.CreateTokenInput{
		RequestId: "token", Name: "laptop", Grants: []client.TokenGrantInput{{Role: client.RoleViewer, ProjectId: "*",
			EnvironmentId: "*"}},
	})
	must(t, err)
	return *out.CreateToken.Secret
}

// appendReceipts appends receipts of signals for a while in the background, so that streams always have a next frame.
func appendReceipts(t *testing.T, s store.Store, runID string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testtime.Of(2*policyDelay))
	t.Cleanup(cancel)
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			_ = s.InRun(ctx, runID, func(tx store.RunTx) error {
				_, err := tx.PutReceipt(
					ctx, run.SignalReceipt{RunID: runID, Signal: run.Signal{ID: fmt.Sprintf("pause-%d", n), Type: run.Pause},
						Actor: "ana", Rejected: true}, false)
				return err
			})
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

// checkGuessesAreLimited sends wrong tokens until the server limits their address. A token that was valid before from
// the same address must still pass.
func checkGuessesAreLimited(t *testing.T, base string) {
	t.Helper()
	const query = `{ viewer { principal } }`
	for n := range 30 {
		a := ask(t, base, query, nil, fmt.Sprintf("Authorization: Bearer guess-%d", n))
		if a.code() == "AUTH_RATE_LIMITED" {
			if n < 10 || a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
				t.Errorf("limited after %d guesses with status %d and Retry-After %q, want 429 after 10 or more", n, a.StatusCode,
					a.Header.Get("Retry-After"))
			}
			if known := ask(t, base, query, nil, "Authorization: Bearer "+leaverToken); known.code() != "" {
				t.Errorf("a valid token of the same address is refused with %s, want no error", known.code())
			}
			return
		}
	}
	t.Error("30 wrong tokens were not limited, want AUTH_RATE_LIMITED")
}
