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

// inForce is how long a change of the policy may take to reach another server.
const inForce = 2 * time.Second

// Two servers on one database: what one of them is told holds on the other within 2 s. The
// streams there of a viewer that lost the right end FORBIDDEN, with no frame after that.
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
	answers(t, urlA)
	answers(t, urlB)
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })

	ana := client.New(urlA, adminToken)
	doc, err := examples.Plan(examples.Shop, examples.Values{NotifyURL: "http://" + addressA + "/dev/notify", Data: dir})
	must(t, err)
	runID := start(t, ana, "authority", doc)
	secret := tokenOf(t, client.New(urlA, leaverToken))

	viewers := map[string]*viewer{"vic": watch(t, client.New(urlB, leaverToken), runID)}
	viewers["vic"].until(1, 10*time.Second)
	time.Sleep(testtime.Of(inForce)) // a token too takes so long to be known everywhere
	viewers["her token"] = watch(t, client.New(urlB, secret), runID)
	viewers["her token"].until(1, 10*time.Second)

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
		t.Errorf("on the server that was told she still sees %v (%v)", out, err)
	}
	stir(t, s, runID)
	for name, v := range viewers {
		select {
		case err := <-v.done:
			var named *client.Error
			if !errors.As(err, &named) || named.Code != "FORBIDDEN" {
				t.Errorf("the stream of %s ended with %v", name, err)
			}
			if took := time.Since(changed); took > testtime.Of(inForce) {
				t.Errorf("the stream of %s ended after %v", name, took)
			}
		case <-time.After(testtime.Of(2 * inForce)):
			t.Fatalf("the stream of %s has not ended", name)
		}
	}
	if out, err := client.ShowRun(t.Context(), client.New(urlB, leaverToken), runID, nil); err != nil || out.Run != nil {
		t.Errorf("on the other server she still sees %v (%v)", out, err)
	}
	slowed(t, urlB)
}

// tokenOf makes an API token with a viewer's rights.
func tokenOf(t *testing.T, c *client.Client) string {
	t.Helper()
	out, err := client.CreateToken(t.Context(), c, client.CreateTokenInput{
		RequestId: "token", Name: "laptop", Grants: []client.TokenGrantInput{{Role: client.RoleViewer, ProjectId: "*",
			EnvironmentId: "*"}},
	})
	must(t, err)
	return *out.CreateToken.Secret
}

// stir makes something to show, again and again for a while.
func stir(t *testing.T, s store.Store, runID string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testtime.Of(2*inForce))
	t.Cleanup(cancel)
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			_ = s.InRun(ctx, runID, func(tx store.RunTx) error {
				_, err := tx.PutReceipt(
					ctx, run.Receipt{RunID: runID, Signal: run.Signal{ID: fmt.Sprintf("stir-%d", n), Type: run.Pause}, Actor: "ana",
						Rejected: true}, false)
				return err
			})
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

// slowed guesses tokens until the server slows it, and looks whether others are.
func slowed(t *testing.T, base string) {
	t.Helper()
	const query = `{ viewer { principal } }`
	for n := range 30 {
		a := ask(t, base, query, nil, fmt.Sprintf("Authorization: Bearer guess-%d", n))
		if a.code() == "AUTH_RATE_LIMITED" {
			if n < 10 || a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
				t.Errorf("slowed after %d, status %d, Retry-After %q", n, a.StatusCode, a.Header.Get("Retry-After"))
			}
			if known := ask(t, base, query, nil, "Authorization: Bearer "+leaverToken); known.code() != "" {
				t.Errorf("who was known before is refused: %s", known.code())
			}
			return
		}
	}
	t.Error("30 wrong tokens were looked at")
}
