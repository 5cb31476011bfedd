package send_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
)

func auditMessage(n int, text string) destination.Message {
	m := eventMessage()
	m.ID, m.Topic, m.Type, m.Seq = fmt.Sprint("record-", n), destination.Audit, "AuditRecord", uint64(n)
	m.TenantID = "acme"
	m.RunID, m.ProjectID, m.EnvironmentID, m.PlanID = "", "", "", ""
	doc, _ := json.Marshal(map[string]any{"no": n, "reason": text})
	m.Data = doc
	return m
}

func fileOf(t *testing.T, path, query string) destination.Sender {
	t.Helper()
	return newSender(t, destination.Config{Kind: destination.File, URL: "file://" + path + query})
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 0 && body[len(body)-1] != '\n' {
		t.Errorf("%s ends within a line", path)
	}
	return strings.Split(strings.TrimSpace(string(body)), "\n")
}

func TestFile_RotatesBySizeAndKeepsAFewFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.ndjson")
	s := fileOf(t, path, "?maxMB=1&keep=2")
	for n := range 20 {
		if err := s.Send(t.Context(), auditMessage(n, strings.Repeat("x", 200_000))); err != nil {
			t.Fatal(err)
		}
	}
	var last string
	for _, name := range []string{path + ".2", path + ".1", path} {
		lines := readLines(t, name)
		for _, line := range lines {
			if len(last) > 0 && len(line) < 200_000 {
				t.Errorf("a line of %s is short", name)
			}
			last = line
		}
		if info, err := os.Stat(name); err != nil || info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes, want at most 1 MiB (%v)", name, info.Size(), err)
		}
	}
	if !strings.Contains(last, `"no":19`) {
		t.Errorf("the last line is %.40s, want record 19", last)
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("there are more files than keep")
	}
}

func TestFile_RemovesAPartOfALineThatAKilledProcessLeft(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.ndjson")
	whole := `{"no":1}` + "\n"
	if err := os.WriteFile(path, []byte(whole+`{"no":2,"rea`+strings.Repeat("x", 9000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fileOf(t, path, "").Send(t.Context(), auditMessage(2, "again")); err != nil {
		t.Fatal(err)
	}
	again := string(auditMessage(2, "again").Data)
	if lines := readLines(t, path); len(lines) != 2 || lines[0]+"\n" != whole || lines[1] != again {
		t.Errorf("the file has the lines %.60q, want the whole one and the repeated one", lines)
	}
}

func TestFile_ContinuesAfterACollectorRenamedIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.ndjson")
	s := fileOf(t, path, "")
	for n := range 2 {
		if err := s.Send(t.Context(), auditMessage(n, "a")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path, fmt.Sprint(path, ".old", n)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2 {
		if lines := readLines(t, fmt.Sprint(path, ".old", n)); len(lines) != 1 {
			t.Errorf("file %d has %d lines, want 1", n, len(lines))
		}
	}
}

func TestFile_SaysWhyItCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked")
	lock, err := os.Create(locked + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{full: "full", locked: "another process",
		filepath.Join(dir, "no", "x"): "directory"} {
		err := fileOf(t, path, "").Send(t.Context(), auditMessage(1, "a"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", path, err, want)
		}
	}
	for _, url := range []string{"file://relative", "file:///a/../b", "file:///a?maxMB=0", "file:///a?more=1",
		"https:///a"} {
		if _, err := send.New(destination.Config{Kind: destination.File, URL: url}, send.Options{}); err == nil {
			t.Errorf("the address %s was accepted", url)
		}
	}
}

// A record over TLS arrives as the bytes that it has, however long it is, and records that a receiver may not have read
// before it died are sent again.
func TestSyslog_ARecordOfTheAuditIsWholeAndRepeatedAfterALostConnection(t *testing.T) {
	t.Parallel()
	c := newCollector(t, "tls")
	s := syslogOf(t, c)
	long := auditMessage(1, "two  spaces <tag> \u2066 "+strings.Repeat("é", 40_000))
	if err := s.Send(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	priority, msgID, data, text := parseLine(t, c.next(t))
	if text != string(long.Data) || priority != "110" || msgID != "AuditRecord" || !strings.Contains(data, `seq="1"`) {
		t.Errorf("the record has the priority %s, the id %s and %d bytes; want 110, AuditRecord and %d", priority, msgID,
			len(text), len(long.Data))
	}
	conn := <-c.accepted
	conn.Close()
	for n := 2; ; n++ { // the first writes may go into the dead connection
		if err := s.Send(t.Context(), auditMessage(n, "later")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-c.accepted:
		default:
			if n < 1000 {
				continue
			}
			t.Fatal("there is no new connection")
		}
		var seen []string
		for len(seen) < n {
			_, _, _, text := parseLine(t, c.next(t))
			seen = append(seen, text)
		}
		if seen[0] != string(long.Data) || !strings.Contains(seen[n-1], fmt.Sprintf(`"no":%d`, n)) {
			t.Errorf("after the lost connection %d records came; want all %d in order", len(seen), n)
		}
		return
	}
}
