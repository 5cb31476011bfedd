package retention_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/export"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/storeadmin"
)

// An export of a tenant whose audit was cut verifies, and one without the record of the cut does not.
// contract: T208
func TestExport_OfACutAuditVerifies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	oldAudit(t, dir)
	s, bucket, err := openParts(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = s.Close(), bucket.Close() }()
	if err := auditWorker(s, bucket, bucket, nil).PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := controltest.Must[*sql.DB](t)(sql.Open("sqlite", filepath.Join(dir, "dvt.db")))
	defer db.Close()
	to := filepath.Join(t.TempDir(), "export")
	cfg := export.Config{Store: s, Owner: owner.New(db, owner.SQLite), Bucket: bucket, Dir: to,
		Of: owner.Scope{TenantID: auditTenant}, Reason: "an auditor asked",
		Run: func(ctx context.Context, at time.Time, runID string, w io.Writer) error {
			_, err := storeadmin.ExportAt(ctx, s, at, []string{runID}, w, nil)
			return err
		}}
	mistyped := cfg
	mistyped.Of.TenantID = "no-such-tenant"
	if _, err := export.Run(t.Context(), mistyped); !errors.Is(err, export.ErrNothing) {
		t.Fatalf("an export of an unknown tenant: %v, want ErrNothing", err)
	}
	if _, err := export.Run(t.Context(), cfg); err != nil {
		t.Fatalf("an export after a mistyped name of the tenant: %v", err)
	}
	v := controltest.Must[export.Verified](t)(export.Verify(to))
	if v.Wrong > 0 {
		t.Errorf("the export of a cut audit has %d problems, the first: %s", v.Wrong, v.Problems[0])
	}
	if v.Audit < 4 || v.Audit > 10 { // the policy and the link before it, the link of the cut, and what came later
		t.Errorf("the export has %d links of the audit, want those that the cut left", v.Audit)
	}
	files := controltest.Must[[]string](t)(filepath.Glob(filepath.Join(to, "audit", "*.ndjson")))
	for _, file := range files {
		body := controltest.Must[[]byte](t)(os.ReadFile(file))
		forged := strings.Replace(string(body), `"action":"`+store.ActionCutAudit+`"`, `"action":"NOT_A_CUT"`, 1)
		if err := os.WriteFile(file, []byte(forged), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v = controltest.Must[export.Verified](t)(export.Verify(to))
	if !strings.Contains(strings.Join(v.Problems, "\n"), "no record of it says so") {
		t.Errorf("verify of an export without the record of the cut says %q, want that nothing excuses the gap", v.Problems)
	}
}

// An operator imports an old run after a cut was recorded and before it was carried out. The cut waits for the run,
// and is no failure: nobody could do anything about it.
func TestPass_ACutWaitsForARunThatIsBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	oldAudit(t, dir)
	s, bucket, err := openParts(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = s.Close(), bucket.Close() }()
	held := interruptedCut{Store: s}
	if err := auditWorker(held, bucket, bucket, nil).PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut := cutOf(t, allLinks(t, s))
	if cut.No != 1203 || len(allLinks(t, s)) < 1203 {
		t.Fatalf("the cut is recorded up to %d and %d links are there, want 1203 and nothing deleted", cut.No,
			len(allLinks(t, s)))
	}
	id := runtest.ID
	id.TenantID, id.RunID = auditTenant, "gone" // the old records speak of it
	if err := s.Import(t.Context(), store.NewRun{Run: store.Run{Identity: id, CreatedAt: time.Now()}},
		runtest.Log(runtest.Draft(run.RunApproved, "", 1))); err != nil {
		t.Fatal(err)
	}
	if err := auditWorker(s, bucket, bucket, nil).PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	var p retention.Pass
	doc := controltest.Must[json.RawMessage](t)(s.RetentionPass(t.Context(), auditTenant))
	if err := json.Unmarshal(doc, &p); err != nil {
		t.Fatal(err)
	}
	if p.Failed != 0 || p.Waiting == 0 {
		t.Errorf("the pass had %d failures (%s) and %d waiting, want none and the cut that waits", p.Failed, p.Error,
			p.Waiting)
	}
	if n := len(allLinks(t, s)); n < 1203 {
		t.Errorf("%d links are left, want all while the run is back", n)
	}
}

// interruptedCut is a store whose cuts meet an obstacle, so that they are recorded only.
type interruptedCut struct{ store.Store }

func (interruptedCut) CutAudit(context.Context, string, string, int64, int) (int64, error) {
	return 0, &store.ObstacleError{Obstacle: store.ObstacleHeld}
}
