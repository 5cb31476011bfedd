package retention_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/auditdoc"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// diesVariable makes this test binary a process that makes one pass and kills itself at a step of the cut.
const diesVariable = "DVT_RETENTION_TEST_DIES_AT"

var cutKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

const auditTenant = "acme"

func cutSigner() *retention.CutSigner {
	return &retention.CutSigner{Key: func() ed25519.PrivateKey { return cutKey }, Installation: "https://dvt.example"}
}

func auditWorker(s store.Store, objects archive.Objects, bucket *artifact.Store,
	now func() time.Time) *retention.Worker {
	return retention.NewWorker(retention.WorkerConfig{Store: s, Archive: archive.Archive{Store: s, Objects: objects},
		Bucket: bucket, Owner: "cutter", Metrics: prometheus.NewRegistry(), Now: now, Installed: retention.Installation{
			RunsPerMinute: 1_000_000, Share: 1, Cuts: cutSigner(), Document: retention.DefaultDocument()}})
}

// oldAudit opens a store in a directory with 1,203 records of a tenant, linked eight years ago. Number 600 made a
// policy. The tenant has a run, and no record speaks of it.
func oldAudit(t *testing.T, dir string) {
	t.Helper()
	past := time.Now().AddDate(-8, 0, 0)
	s := controltest.Must[*sqlite.Store](t)(sqlite.Open(t.Context(), filepath.Join(dir, "dvt.db"),
		sqlite.Options{Now: func() time.Time { return past }}))
	defer s.Close()
	id := runtest.ID
	id.TenantID = auditTenant
	if err := s.Import(t.Context(), store.NewRun{Run: store.Run{Identity: id, CreatedAt: past}},
		runtest.Log(runtest.Draft(run.RunApproved, "", 1))); err != nil {
		t.Fatal(err)
	}
	l := controltest.Must[store.Loaded](t)(s.Load(t.Context(), id.RunID))
	if err := s.MarkPublished(t.Context(), id.RunID, l.Head.LastSeq, l.Head.OpsRev); err != nil {
		t.Fatal(err)
	}
	var rows []store.AuditRow
	for n := range 1203 {
		row := store.AuditRow{ID: uuid.NewString(), TenantID: auditTenant, Actor: "ola", Action: "PAUSE", RunID: "gone",
			Outcome: "ACCEPTED", Detail: json.RawMessage(`{"n": 1}`)}
		if n == 599 {
			row.RunID, row.Object, row.Digest = "", "policy/1", strings.Repeat("a", 64)
		}
		rows = append(rows, row)
	}
	if err := s.Audit(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	for n := 1; n > 0; {
		n = controltest.Must[int](t)(s.LinkAudit(t.Context(), store.MaxPage))
	}
}

func allLinks(t *testing.T, s store.Store) (out []store.AuditLink) {
	t.Helper()
	for f := (store.AuditFilter{TenantID: auditTenant, WithMissingRows: true, Limit: store.MaxPage}); ; {
		page := controltest.Must[[]store.AuditLink](t)(s.AuditLinks(t.Context(), f))
		out = append(out, page...)
		if len(page) < f.Limit {
			return out
		}
		f.After = page[len(page)-1].No
	}
}

// cutOf returns the newest cut of the audit, or the zero value.
func cutOf(t *testing.T, links []store.AuditLink) (cut store.AuditCut) {
	t.Helper()
	for _, l := range links {
		if l.Row != nil && l.Row.Action == store.ActionCutAudit {
			cut = controltest.Must[store.AuditCut](t)(store.DecodeAuditCut(l.Row.Detail))
			if !cut.IsSignedBy(cutKey.Public().(ed25519.PublicKey)) || l.Row.Object != store.AuditCutObject(cut.No) {
				t.Errorf("number %d records a cut that nobody signed: %+v", l.No, cut)
			}
		}
	}
	return cut
}

// checkCutChain checks the chain as dvt audit verify does, and returns how many of the old records are in the store.
func checkCutChain(t *testing.T, s store.Store) (old int) {
	t.Helper()
	links := allLinks(t, s)
	cut := cutOf(t, links)
	before, digest, kept := store.AuditLink{}, "", int64(0)
	for _, l := range links {
		switch {
		case l.No != before.No+1 && l.No > cut.No, l.Row == nil && l.No > cut.No:
			t.Errorf("number %d or the one before it is missing, and nothing excuses that", l.No)
		case l.No == before.No+1 && l.Row != nil && l.Hash != l.Row.Link(before.Hash, l.No):
			t.Errorf("the hash of number %d does not continue the chain", l.No)
		case l.No == cut.No && hex.EncodeToString(l.Hash[:]) != cut.Hash:
			t.Errorf("the cut names another hash than that of number %d", l.No)
		}
		if l.Row != nil && l.No <= 1203 {
			old++
		}
		if l.No <= cut.No && l.Row != nil && store.OutlivesCut(l.Row.Object) {
			kept++
			digest = store.KeptAudit(digest, l.No, hex.EncodeToString(l.Hash[:]))
		}
		before = l
	}
	if kept != cut.Kept || digest != cut.KeptDigest {
		t.Errorf("%d records are kept with the digest %q, want %d with %q", kept, digest, cut.Kept, cut.KeptDigest)
	}
	return old
}

// archivedNumbers reads the numbers of the archived records, and checks the hash of each.
func archivedNumbers(t *testing.T, bucket *artifact.Store, location string) (out []int64) {
	t.Helper()
	in, err := bucket.OpenArchived(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for d := json.NewDecoder(controltest.Must[*gzip.Reader](t)(gzip.NewReader(in))); d.More(); {
		var doc auditdoc.Doc
		if err := d.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		if err := doc.Verify(); err != nil {
			t.Errorf("archived number %d: %v", doc.No, err)
		}
		out = append(out, doc.No)
	}
	return out
}

// contract: T180, T208
func TestPass_CutsTheAuditByAge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	oldAudit(t, dir)
	s, bucket, err := openParts(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = s.Close(), bucket.Close() }()
	young := store.AuditRow{ID: uuid.NewString(), TenantID: auditTenant, Actor: "ola", Action: "RESUME",
		Outcome: "ACCEPTED"}
	if err := s.Audit(t.Context(), young); err != nil {
		t.Fatal(err)
	}
	controltest.Must[int](t)(s.LinkAudit(t.Context(), 10))
	if err := auditWorker(s, bucket, bucket, nil).PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if old := checkCutChain(t, s); old != 1 {
		t.Errorf("%d of the old records are left, want that of the policy alone", old)
	}
	links := allLinks(t, s)
	cut := cutOf(t, links)
	want := store.AuditCut{Installation: "https://dvt.example", TenantID: auditTenant, No: 1203, Hash: cut.Hash,
		At: cut.At, Before: cut.Before, Days: 2557, Rows: 1202, Total: 1202, Kept: 1, KeptDigest: cut.KeptDigest,
		Location: cut.Location, SHA256: cut.SHA256, Signature: cut.Signature}
	if fmt.Sprint(cut) != fmt.Sprint(want) {
		t.Errorf("the cut is %+v, want %+v", cut, want)
	}
	if n := len(archivedNumbers(t, bucket, cut.Location)); n != 1202 {
		t.Errorf("%d records are in the archive, want the 1202 that were deleted", n)
	}
	if err := auditWorker(s, bucket, bucket, nil).PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := allLinks(t, s); len(again) != len(links) {
		t.Errorf("a second pass changed the audit: %d links, want %d", len(again), len(links))
	}
	later := func() time.Time { return time.Now().AddDate(8, 0, 0) }
	aged := controltest.Must[*sqlite.Store](t)(sqlite.Open(t.Context(), filepath.Join(dir, "dvt.db"),
		sqlite.Options{Now: later}))
	defer aged.Close()
	if err := auditWorker(aged, bucket, bucket, later).PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkCutChain(t, aged)
	if second := cutOf(t, allLinks(t, aged)); second.No <= cut.No || second.Kept != 1 ||
		second.Total != second.No-1 {
		t.Errorf("eight years later the cut is %+v, want one that goes on from number %d", second, cut.No)
	}
}

// mortalStore is a store that kills the process before and after each write of the cut.
type mortalStore struct {
	store.Store
	step func()
}

func (m mortalStore) Audit(ctx context.Context, rows ...store.AuditRow) error {
	if rows[0].Action != store.ActionCutAudit {
		return m.Store.Audit(ctx, rows...)
	}
	m.step()
	defer m.step()
	return m.Store.Audit(ctx, rows...)
}

func (m mortalStore) LinkAudit(ctx context.Context, limit int) (int, error) {
	defer m.step()
	return m.Store.LinkAudit(ctx, limit)
}

func (m mortalStore) CutAudit(ctx context.Context, tenantID, rowID string, after int64, limit int) (int64, error) {
	defer m.step()
	return m.Store.CutAudit(ctx, tenantID, rowID, after, limit)
}

// mortalObjects is a bucket that kills the process after it wrote an object.
type mortalObjects struct {
	archive.Objects
	step func()
}

func (m mortalObjects) PutArchived(ctx context.Context, name string, body io.Reader) error {
	defer m.step()
	return m.Objects.PutArchived(ctx, name, body)
}

// contract: T208
func TestPass_ACutSurvivesAKillAfterEachStep(t *testing.T) {
	t.Parallel()
	killed := 0
	for at := 1; ; at++ {
		dir := t.TempDir()
		oldAudit(t, dir)
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), killedVariable+"="+dir, diesVariable+"="+strconv.Itoa(at))
		out, err := child.CombinedOutput()
		if err == nil {
			break // it has no such step
		}
		if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("the process ended with %v before step %d: %s", err, at, out)
		}
		killed++
		finishCut(t, dir, at)
	}
	if killed < 7 {
		t.Errorf("the process was killed at %d steps, want at least 7", killed)
	}
}

// finishCut checks the audit after a kill, and that later passes finish the cut.
func finishCut(t *testing.T, dir string, step int) {
	t.Helper()
	s, bucket, err := openParts(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = s.Close(), bucket.Close() }()
	controltest.Must[int](t)(s.LinkAudit(t.Context(), 10))
	left := checkCutChain(t, s)
	w := auditWorker(s, bucket, bucket, nil)
	for range 2 {
		if err := w.PassNow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if old := checkCutChain(t, s); old != 1 {
		t.Errorf("killed at step %d with %d old records: %d are left after two passes, want 1", step, left, old)
	}
	numbers := archivedNumbers(t, bucket, cutOf(t, allLinks(t, s)).Location)
	if slices.Sort(numbers); len(slices.Compact(numbers)) != 1202 {
		t.Errorf("killed at step %d: the archive has %d records, want all 1202 that were deleted", step, len(numbers))
	}
}

// passUntilStep makes one pass and kills this process at a step of the cut.
func passUntilStep(ctx context.Context, dir string, at int) error {
	s, bucket, err := openParts(ctx, dir)
	if err != nil {
		return err
	}
	step := 0
	dying := func() {
		if step++; step == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	return auditWorker(mortalStore{s, dying}, mortalObjects{bucket, dying}, bucket, nil).PassNow(ctx)
}
