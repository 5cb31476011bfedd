package retention_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/storeadmin"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// killedVariable makes this test binary a process that makes passes on the store and bucket in a directory.
const killedVariable = "DVT_RETENTION_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedVariable); dir != "" {
		do := passUntilKilled
		if at, err := strconv.Atoi(os.Getenv(diesVariable)); err == nil {
			do = func(dir string) error { return passUntilStep(context.Background(), dir, at) }
		}
		if err := do(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// openParts opens the store and the bucket in a directory.
func openParts(ctx context.Context, dir string) (*sqlite.Store, *artifact.Store, error) {
	s, err := sqlite.Open(ctx, filepath.Join(dir, "dvt.db"), sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	bucket, err := artifact.Open(ctx, "file://"+filepath.Join(dir, "bucket")+"?create_dir=1")
	return s, bucket, err
}

func workerOf(s store.Store, bucket *artifact.Store) *retention.Worker {
	day := func(n int) *int { return &n }
	return retention.NewWorker(retention.WorkerConfig{
		Store: s, Archive: archive.Archive{Store: s, Objects: bucket}, Bucket: bucket, Owner: "killed",
		Metrics: prometheus.NewRegistry(), Installed: retention.Installation{RunsPerMinute: 1_000_000, Share: 0.25,
			Document: retention.Document{Runs: retention.RunDays{ArchiveAfterDays: day(3)}, Receipts: day(4)}},
	})
}

func passUntilKilled(dir string) error {
	ctx := context.Background()
	s, bucket, err := openParts(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		if err := workerOf(s, bucket).PassNow(ctx); err != nil {
			return err
		}
	}
}

// exported is the export of a whole store without the line that has the time.
func exported(t *testing.T, s store.Store) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := storeadmin.Export(t.Context(), s, nil, &b, nil); err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(b.String(), "\n")
	return lines
}

// Nothing that is not in the archive is ever gone, wherever a pass is killed, and later passes finish its work.
func TestPass_LosesNothingWhenItIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const runs, kills = 80, 20
	want := ""
	func() {
		s, bucket, err := openParts(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = s.Close(), bucket.Close() }()
		for n := range runs {
			importRandom(t, s, n)
		}
		want = exported(t, s)
	}()
	progress := map[int]bool{}
	within := 80 * time.Millisecond // grows while a busy machine archives nothing in that time
	for kill := 0; kill < kills || len(progress) < 5 && kill < 3*kills; kill++ {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), killedVariable+"="+dir)
		var errs bytes.Buffer
		child.Stderr = &errs
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("the process wrote %q (%v): %s", line, err, errs.String())
		}
		time.Sleep(rand.N(within))
		_ = child.Process.Kill()
		_ = child.Wait()
		if errs.Len() > 0 {
			t.Fatalf("kill %d: the process failed: %s", kill, errs.String())
		}
		met := len(progress)
		progress[check(t, dir, want, kill)] = true
		if len(progress) == met {
			within = min(2*within, 2*time.Second)
		}
	}
	if len(progress) < 5 {
		t.Errorf("the kills met the archive with these numbers of runs: %v, want at least 5 different ones", progress)
	}
	s, bucket, err := openParts(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = s.Close(), bucket.Close() }()
	if err := workerOf(s, bucket).PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := s.ListArchived(t.Context(), store.ArchivedFilter{TenantID: runtest.ID.TenantID, Part: store.PartEvents,
		Before: time.Now(), Limit: 10})
	if err != nil || len(left) > 0 {
		t.Errorf("after a whole pass %d archived runs still have events (%v), want none", len(left), err)
	}
	check(t, dir, want, kills)
}

// check compares everything with the export before the first pass, and returns how many runs are archived.
func check(t *testing.T, dir, want string, kill int) int {
	t.Helper()
	s, bucket, err := openParts(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = s.Close(), bucket.Close() }()
	reading := archive.Reading(s, bucket)
	if got := exported(t, reading); got != want {
		t.Fatalf("kill %d: the export has %d bytes and differs from the one before, with %d", kill, len(got), len(want))
	}
	out, err := storeadmin.Verify(t.Context(), reading, storeadmin.VerifyOptions{}, nil)
	if err != nil || out.Differences > 0 {
		t.Fatalf("kill %d: verify found %v (%v)", kill, out.Found, err)
	}
	archived := 0
	for n := range 80 {
		found, err := s.FindArchived(t.Context(), fmt.Sprintf("run-%03d", n))
		if err != nil {
			t.Fatal(err)
		}
		archived += len(found)
	}
	return archived
}

// importRandom imports a random log; some have no end.
func importRandom(t *testing.T, s store.Store, n int) {
	t.Helper()
	id := runtest.ID
	id.RunID = fmt.Sprintf("run-%03d", n)
	events := runtest.RandomLog(uint64(n))
	if err := s.Import(t.Context(), store.NewRun{Run: store.Run{Identity: id, TriggeredBy: "ola",
		CreatedAt: runtest.Epoch, TriggerSource: storeadmin.TriggerImport}}, events); err != nil {
		t.Fatal(err)
	}
	l, err := s.Load(t.Context(), id.RunID)
	if err == nil {
		err = s.MarkPublished(t.Context(), id.RunID, l.Head.LastSeq, l.Head.OpsRev)
	}
	if err != nil {
		t.Fatal(err)
	}
}
