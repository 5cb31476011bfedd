package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/internal/errorline/errorlinetest"
)

var attempt = artifact.AttemptID{TenantID: "t1", RunID: "r1", StepID: "build", LogicalAttempt: 1}

func open(t *testing.T, url string, l artifact.Limits) *artifact.Store {
	t.Helper()
	s, err := artifact.OpenWithLimits(t.Context(), url, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func folder(t *testing.T) string {
	return "file://" + filepath.Join(t.TempDir(), "blobs") + "?create_dir=true"
}

func text(from, to int) (ls []artifact.Line) {
	for i := from; i <= to; i++ {
		ls = append(ls, artifact.Line{At: time.Unix(int64(i), 0).UTC(), Stream: "stdout", Text: fmt.Sprintf("line %d", i)})
	}
	return ls
}

func read(t *testing.T, s *artifact.Store, from int64, limit int) ([]string, int64) {
	t.Helper()
	page, err := s.Read(t.Context(), attempt, from, limit)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, l := range page.Lines {
		if l.No != max(from, 1)+int64(i) {
			t.Fatalf("line %d of the answer has No %d; numbers have no holes", i, l.No)
		}
		out = append(out, l.Text)
	}
	return out, page.Total
}

func add(t *testing.T, s *artifact.Store, engineAttempt int, from int64, ls []artifact.Line) {
	t.Helper()
	if err := s.Append(t.Context(), attempt, engineAttempt, from, ls); err != nil {
		t.Fatal(err)
	}
}

// contract: T229
func TestLogs_RepeatedAppendChangesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, folder(t), artifact.Limits{})
	add(t, s, 1, 1, text(1, 3))
	add(t, s, 1, 1, text(1, 3))
	add(t, s, 1, 2, text(2, 5)) // overlaps what is kept
	add(t, s, 2, 1, text(1, 2)) // the platform runs it again: numbers go on
	add(t, s, 1, 4, text(4, 5)) // a late repetition of the first execution
	got, total := read(t, s, 1, 100)
	want := []string{"line 1", "line 2", "line 3", "line 4", "line 5", "line 1", "line 2"}
	if diff := cmp.Diff(want, got); diff != "" || total != 7 {
		t.Errorf("total %d, lines (-want +got):\n%s", total, diff)
	}
	page, err := s.Read(t.Context(), attempt, 6, 1)
	if err != nil || page.Lines[0].EngineAttempt != 2 {
		t.Errorf("line 6: %+v, %v; want engine attempt 2", page, err)
	}
}

func TestLogs_ReadByNumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "file://"+dir, artifact.Limits{})
	for from := 1; from <= 1000; from += 50 {
		add(t, s, 1, int64(from), text(from, from+49))
	}
	var pieces int
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			pieces++
		}
		return nil
	})
	if pieces > 4 {
		t.Errorf("1000 lines are stored in %d objects; small ones must be joined", pieces)
	}
	for _, from := range []int64{-1, 1, 2, 256, 257, 300, 999, 1000, 1001, 5000} {
		got, total := read(t, s, from, 3)
		var want []string
		for i := max(from, 1); i < max(from, 1)+3 && i <= 1000; i++ {
			want = append(want, fmt.Sprintf("line %d", i))
		}
		if diff := cmp.Diff(want, got); diff != "" || total != 1000 {
			t.Errorf("from %d: total %d (-want +got):\n%s", from, total, diff)
		}
	}
	if got, total := read(t, s, 1, 0); len(got) != 0 || total != 1000 {
		t.Errorf("limit 0 gave %d lines of %d", len(got), total)
	}
}

func TestLogs_AnotherProcessReadsAndGoesOn(t *testing.T) {
	t.Parallel()
	url := folder(t)
	a, b := open(t, url, artifact.Limits{}), open(t, url, artifact.Limits{})
	add(t, a, 1, 1, text(1, 2))
	add(t, b, 1, 2, text(2, 4)) // the next call went to another server
	add(t, a, 1, 3, text(3, 5))
	for _, s := range []*artifact.Store{a, b} {
		if got, total := read(t, s, 4, 10); total != 5 || !cmp.Equal(got, []string{"line 4", "line 5"}) {
			t.Errorf("read %v of %d lines, want the last two of 5", got, total)
		}
	}
}

func TestLogs_SurvivesAKilledWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "file://"+dir, artifact.Limits{})
	add(t, s, 1, 1, text(1, 2))
	logs := filepath.Join(dir, "logs", "t1", "r1", "build", "1")
	old, err := os.ReadDir(logs)
	if err != nil || len(old) != 1 {
		t.Fatal(old, err)
	}
	first, err := os.ReadFile(filepath.Join(logs, old[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, 1, 3, text(3, 4))
	// The state of a writer that was killed after it wrote the larger piece and before it removed the smaller one.
	if err := os.WriteFile(filepath.Join(logs, old[0].Name()), first, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(logs, "fileblob123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, total := read(t, s, 1, 10); total != 4 || len(got) != 4 {
		t.Errorf("read %v of %d lines, want all 4", got, total)
	}
}

func TestLogs_LinesAreCut(t *testing.T) {
	t.Parallel()
	s := open(t, "mem://", artifact.Limits{LineBytes: 8})
	add(t, s, 1, 1, []artifact.Line{{Text: "short"}, {Text: "1234567€ and more"}, {Text: "bad \xff\xfe"}})
	got, _ := read(t, s, 1, 10)
	want := []string{"short", "1234567" + artifact.CutMark, "bad \uFFFD"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// The beginning and the end of the log keep their numbers, in this process and in another, and one line reports what is
// missing.
func TestLogs_DropTheMiddleBeyondTheLimits(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]artifact.Limits{
		"lines": {AttemptLines: 4000},
		"bytes": {AttemptBytes: 400_000}, // a line takes about 80
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, "file://"+dir, limits)
			const all, batch = 20_000, 300
			for from := 1; from <= all; from += batch {
				add(t, s, 1, int64(from), text(from, from+batch-1))
			}
			other := open(t, "file://"+dir, limits)
			page, err := other.Read(t.Context(), attempt, 1, 5000)
			if err != nil {
				t.Fatal(err)
			}
			hole, last := page.Missing, int64(all/batch+1)*batch
			if page.Total != last || hole.From < 600 || hole.From > 1501 || last-hole.To < 2000 || last-hole.To > 4500 {
				t.Fatalf("total %d, missing %+v", page.Total, hole)
			}
			want := int64(1)
			for _, l := range page.Lines {
				if l.No == hole.To {
					if said := fmt.Sprintf("%d lines are missing here", hole.To-hole.From+1); l.Stream != "dvt" ||
						!strings.Contains(l.Text, said) {
						t.Errorf("the line for the missing ones is %+v", l)
					}
					want = hole.To + 1
					continue
				}
				if l.No != want || l.Text != fmt.Sprintf("line %d", l.No) {
					t.Fatalf("line %d: %q; want line %d", l.No, l.Text, want)
				}
				if want++; want == hole.From {
					want = hole.To
				}
			}
			if want != last+1 {
				t.Errorf("the last line read is %d of %d", want-1, last)
			}
			inside, err := s.Read(t.Context(), attempt, hole.From+10, 2)
			if err != nil || len(inside.Lines) != 2 || inside.Lines[0].No != hole.To || inside.Lines[1].No != hole.To+1 {
				t.Errorf("from inside the hole: %+v, %v", inside, err)
			}
			nos, total, err := s.Find(t.Context(), attempt, "line ", 2000)
			if err != nil || len(nos) != artifact.MaxFound || total != int64(len(page.Lines)-1) {
				t.Errorf("%d of %d found, %v", len(nos), total, err)
			}
			add(t, s, 1, 1, text(1, batch))                                      // repeated after its answer was lost
			add(t, s, 1, hole.From+1, text(int(hole.From)+1, int(hole.From)+10)) // as well, and what it added is gone
			add(t, s, 2, 1, text(1, 5))
			add(t, s, 1, last+1, text(1, 5)) // an execution that the platform gave up goes on
			if after, err := s.Read(t.Context(), attempt, 1, 1); err != nil || after.Total != last+5 {
				t.Errorf("afterwards %d lines, %v; want %d", after.Total, err, last+5)
			}
			var kept int64
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
				if info, err := os.Stat(path); err == nil && !d.IsDir() {
					kept += info.Size()
				}
				return nil
			})
			if kept > 450_000 {
				t.Errorf("the bucket has %d bytes, want at most 450,000", kept)
			}
		})
	}
}

// A writer that was killed between the write and the deletions left pieces in the hole.
func TestLogs_DroppedLinesStayDropped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	limits := artifact.Limits{AttemptLines: 4000}
	s := open(t, "file://"+dir, limits)
	logs := filepath.Join(dir, "logs", "t1", "r1", "build", "1")
	old := map[string][]byte{}
	for from := 1; from < 9000; from += 500 {
		files, err := os.ReadDir(logs)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, f := range files {
			if old[f.Name()], err = os.ReadFile(filepath.Join(logs, f.Name())); err != nil {
				t.Fatal(err)
			}
		}
		add(t, s, 1, int64(from), text(from, from+499))
	}
	before, err := s.Read(t.Context(), attempt, 1, 5000)
	if err != nil || before.Missing == (artifact.Missing{}) {
		t.Fatal(before.Missing, err)
	}
	for name, body := range old {
		if strings.HasPrefix(name, "000002001") || strings.HasPrefix(name, "000002501") {
			if err := os.WriteFile(filepath.Join(logs, name), body, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	after, err := open(t, "file://"+dir, limits).Read(t.Context(), attempt, 1, 5000)
	if diff := cmp.Diff(before, after); diff != "" || err != nil {
		t.Errorf("%v (-before +after):\n%s", err, diff)
	}
	add(t, s, 1, 9001, text(9001, 9500))
	if left, _ := filepath.Glob(filepath.Join(logs, "000002*")); len(left) > 0 {
		t.Errorf("the dropped pieces %v still exist", left)
	}
}

func TestLogs_FindReturnsMatchingLines(t *testing.T) {
	t.Parallel()
	s := open(t, "mem://", artifact.Limits{})
	add(t, s, 1, 1, text(1, 600))
	nos, total, err := s.Find(t.Context(), attempt, "line 59", 3)
	if err != nil || total != 11 || !cmp.Equal(nos, []int64{59, 590, 591}) {
		t.Errorf("%v of %d, %v", nos, total, err)
	}
	for text, want := range map[string]int64{
		`a "quoted" <tag> & \back`: 1, "\x1b[31mred": 1, "naïve €": 1, "u003c": 0, "nred": 0, "stdout": 0, `"`: 1, "\t": 1,
		"e": 602,
	} {
		add(t, s, 2, 1, []artifact.Line{{Text: `a "quoted" <tag> & \back`}, {Text: "\x1b[31mred\tnaïve €"}})
		if _, total, err := s.Find(t.Context(), attempt, text, 3); total != want || err != nil {
			t.Errorf("%q is found %d times, %v; want %d", text, total, err, want)
		}
	}
	if nos, total, err = s.Find(t.Context(), attempt, "nothing", 3); len(nos) != 0 || total != 0 || err != nil {
		t.Errorf("%v of %d, %v", nos, total, err)
	}
}

func TestLogs_SearchIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, "mem://", artifact.Limits{})
	add(t, s, 1, 1, text(1, 600))
	add(t, s, 2, 1, text(1, 3))
	got, err := s.Search(t.Context(), attempt, "line 3", 2, 1<<20)
	if err != nil || got.Total != 112 || len(got.Lines) != 2 || !got.Whole || got.Bytes == 0 {
		t.Fatalf("Search: %d matches, %d lines, whole %t, %d bytes, %v; want 112, 2, true, some", got.Total, len(got.Lines),
			got.Whole, got.Bytes, err)
	}
	if l := got.Lines[0]; l.No != 3 || l.Text != "line 3" || l.EngineAttempt != 1 {
		t.Errorf("first line %d %q of engine attempt %d; want 3, line 3, 1", l.No, l.Text, l.EngineAttempt)
	}
	part, err := s.Search(t.Context(), attempt, "line 3", 2, got.Bytes-1)
	if err != nil || part.Whole || part.Total != 111 || part.Bytes >= got.Bytes {
		t.Errorf("with too few bytes: %d matches, whole %t, %d bytes, %v; want those before the last piece", part.Total,
			part.Whole, part.Bytes, err)
	}
}

// The rule of stored logs is that of the executor, so that old logs and new ones name the same lines.
func TestLogs_ErrorLineOfRealOutputs(t *testing.T) {
	t.Parallel()
	for _, of := range errorlinetest.Outputs() {
		var lines []artifact.Line
		for _, line := range of.Lines {
			lines = append(lines, artifact.Line{Stream: line.Stream, Text: line.Text})
		}
		s := open(t, "mem://", artifact.Limits{})
		if lines != nil {
			add(t, s, 1, 1, lines)
		}
		if no, err := s.ErrorLine(t.Context(), attempt, 1, 0); int(no) != of.Want || err != nil {
			t.Errorf("%s: line %d, %v; want %d", of.Name, no, err, of.Want)
		}
	}
}

func TestLogs_ErrorLineThatTheFailureNames(t *testing.T) {
	t.Parallel()
	s := open(t, "mem://", artifact.Limits{})
	add(t, s, 1, 1, text(1, 300))
	add(t, s, 2, 1, append(text(1, 700), artifact.Line{Stream: "output", Text: "error: this one"}))
	for _, c := range []struct {
		what          string
		engineAttempt int
		named, want   int64
	}{
		{"of the first execution", 1, 7, 7},
		{"of the second execution", 2, 7, 307},
		{"the last line", 2, 701, 1001},
		{"a line that is not stored", 2, 702, 0},
		{"a line of an execution without lines", 3, 1, 0},
		{"not named", 2, 0, 1001},
	} {
		if no, err := s.ErrorLine(t.Context(), attempt, c.engineAttempt, c.named); no != c.want || err != nil {
			t.Errorf("%s: line %d, %v; want %d", c.what, no, err, c.want)
		}
	}
}

func TestLogs_FollowWakesOwnAndForeignLines(t *testing.T) {
	t.Parallel()
	url := folder(t)
	mine := open(t, url, artifact.Limits{Poll: time.Hour})
	polling := open(t, url, artifact.Limits{Poll: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	local, foreign := mine.Follow(ctx, attempt), polling.Follow(ctx, attempt)
	second := polling.Follow(ctx, attempt)
	time.Sleep(20 * time.Millisecond)
	add(t, mine, 1, 1, text(1, 1))
	for name, wake := range map[string]<-chan struct{}{"local": local, "foreign": foreign, "second": second} {
		deadline := time.After(time.Minute)
		select {
		case <-wake:
		case <-deadline:
			t.Errorf("%s follower was not woken", name)
		}
	}
	cancel()
	for range local { // closed after ctx
	}
	for range foreign {
	}
}

func TestLogs_ReadersSeeNoGapsBesideAWriter(t *testing.T) {
	t.Parallel()
	url := folder(t)
	w, r := open(t, url, artifact.Limits{}), open(t, url, artifact.Limits{})
	var done sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		done.Go(func() {
			for seen := int64(0); ; {
				page, err := r.Read(context.Background(), attempt, 1, 5000)
				if err != nil {
					t.Error(err)
					return
				}
				if int64(len(page.Lines)) != page.Total || page.Total < seen {
					t.Errorf("%d lines of %d after %d", len(page.Lines), page.Total, seen)
					return
				}
				seen = page.Total
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := 1; i <= 300; i++ {
		add(t, w, 1, int64(i), text(i, i))
	}
	close(stop)
	done.Wait()
}

func TestLogs_RemovedLogIsEmptyAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "file://"+dir, artifact.Limits{})
	add(t, s, 1, 1, text(1, 3))
	if err := os.RemoveAll(filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	_, first := s.Read(t.Context(), attempt, 1, 10)
	if page, err := s.Read(t.Context(), attempt, 1, 10); err != nil || page.Total != 0 || len(page.Lines) != 0 {
		t.Errorf("after %v: %+v, %v", first, page, err)
	}
}

func TestLogs_RefusesForeignNames(t *testing.T) {
	t.Parallel()
	s := open(t, "mem://", artifact.Limits{})
	id := attempt
	id.StepID = "../../other"
	if err := s.Append(t.Context(), id, 1, 1, text(1, 1)); err == nil {
		t.Error("Append accepted a step named ../../other, want an error")
	}
	for _, name := range []string{"", ".", "..", "../x", "/x", "a/../../x", "a//b"} {
		if _, _, _, err := s.Put(t.Context(), name, strings.NewReader("x")); err == nil {
			t.Errorf("Put accepted the name %q, want an error", name)
		}
	}
	for _, uri := range []string{"", "file:///etc/passwd", "artifact:../x", "artifact:%2e%2e/x", "artifact:none"} {
		if _, err := s.Open(t.Context(), uri); !errors.Is(err, artifact.ErrNotFound) {
			t.Errorf("Open(%q): %v, want ErrNotFound", uri, err)
		}
	}
}

func TestBlobs_RoundTripAndBound(t *testing.T) {
	t.Parallel()
	s := open(t, folder(t), artifact.Limits{BlobBytes: 100})
	body := bytes.Repeat([]byte("ab"), 50)
	name := artifact.Name(attempt, 2, "run results.json")
	for range 2 {
		uri, sum, size, err := s.Put(t.Context(), name, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		want := sha256.Sum256(body)
		if uri != artifact.URI(name) || sum != hex.EncodeToString(want[:]) || size != 100 {
			t.Errorf("uri %s, sha256 %s, size %d", uri, sum, size)
		}
		r, err := s.Open(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || r.Close() != nil || !bytes.Equal(got, body) {
			t.Errorf("read back %d bytes, %v", len(got), err)
		}
	}
	_, _, _, err := s.Put(t.Context(), "t1/large", bytes.NewReader(append(body, 'x')))
	if !errors.Is(err, artifact.ErrTooLarge) {
		t.Errorf("101 bytes: %v, want ErrTooLarge", err)
	}
	if _, err := s.Open(t.Context(), artifact.URI("t1/large")); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("a refused artifact: %v, want ErrNotFound", err)
	}
}

// A file system that was not mounted must not be replaced by an empty directory on the disk below it.
func TestOpen_DoesNotCreateADirectoryUnlessAsked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "missing")
	if _, err := artifact.Open(t.Context(), "file://"+dir); err == nil || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("a missing directory: %v, want an error that says what to check", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was created, want none")
	}
}

// contract: H01, R410
func TestCheckWritable_WritesRarelyAndLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "file://"+dir, artifact.Limits{})
	for range 3 {
		if err := s.CheckWritable(t.Context()); err != nil {
			t.Errorf("CheckWritable of a bucket that can be written: %v", err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "health", "*")); err != nil || len(left) > 0 {
		t.Errorf("the probe left %v (%v), want nothing", left, err)
	}
	// A file in the way is what root, who may write everywhere, notices of a bucket without a right to write.
	_ = os.RemoveAll(filepath.Join(dir, "health"))
	if err := os.WriteFile(filepath.Join(dir, "health"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckWritable(t.Context()); err != nil {
		t.Errorf("CheckWritable wrote again within seconds of a success: %v", err)
	}
	if err := open(t, "file://"+dir, artifact.Limits{}).CheckWritable(t.Context()); err == nil {
		t.Error("CheckWritable of a bucket that cannot be written returned nil, want an error")
	}
}

// The address of a bucket may hold a key.
func TestOpen_QuotesNoKeyOfTheAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"s3://u:hunter2%zz@bucket", "nope://u:hunter2@bucket?key=hunter2"} {
		_, err := artifact.Open(t.Context(), address)
		_, archiveErr := artifact.OpenArchive(t.Context(), address)
		if err == nil || archiveErr == nil {
			t.Errorf("%s: no error, want one", address)
		}
		if text := fmt.Sprint(err, archiveErr); strings.Contains(text, "hunter2") {
			t.Errorf("the error quotes the key: %s", text)
		}
	}
}
