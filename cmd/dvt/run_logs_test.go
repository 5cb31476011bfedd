package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// A log with several pages is printed in full, also if it has a gap in its numbers.
func TestRunLogs_ReadsEveryPage(t *testing.T) {
	t.Parallel()
	const total, hole, resumes = 4500, 1500, 3500
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			OperationName string
			Variables     struct{ FromLine, First int }
		}
		err := json.NewDecoder(r.Body).Decode(&in)
		switch in.OperationName {
		case "HeadOfRun":
			_, _ = w.Write([]byte(`{"data":{"run":{"runSeq":9,"rootCause":{"stepId":"s1"}}}}`))
			return
		case "MeasureStepLog":
			_, _ = fmt.Fprintf(w, `{"data":{"stepLog":{"attempt":1,"totalLines":%d,"errorLine":%d}}}`, total, total-2)
			return
		}
		if err != nil || in.Variables.First > logPage {
			t.Errorf("the request is %+v, %v, want at most %d lines", in, err, logPage)
		}
		lines := []map[string]any{}
		for no := in.Variables.FromLine; no <= total && len(lines) < in.Variables.First; no++ {
			if no > hole && no < resumes {
				no = resumes
			}
			lines = append(lines, map[string]any{"no": no, "at": "2026-11-22T00:00:00Z", "stream": "stdout",
				"text": fmt.Sprintf("line %d", no)})
		}
		_ = json.NewEncoder(w).Encode(
			map[string]any{"data": map[string]any{"stepLog": map[string]any{"attempt": 1, "totalLines": total,
				"missing": map[string]any{"from": hole + 1, "to": resumes}, "lines": lines}}})
	}))
	t.Cleanup(s.Close)
	for args, want := range map[string]string{
		"--grep 99":             "line 99\nline 199\n",
		"--tail 2":              "line 4499\nline 4500\n",
		"--tail 9000":           "line 1\n",
		"--failed":              "line 4498\nline 4499\n",
		"--tail 1 --timestamps": "2026-11-22 00:00:00.000Z  stdout  line 4500\n",
		"--since 1ms":           "",
	} {
		if out, status, err := dvt(t, s.URL, "t", append(strings.Fields("run logs r1 s1"),
			strings.Fields(args)...)...); status != 0 || !strings.HasPrefix(out, want) || want == "" && out != "" {
			t.Errorf("%s: %d, %v\n%.200s", args, status, err, out)
		}
	}
	for _, wrong := range []string{"--tail -5", "--since -10m"} {
		if out, status, err := dvt(t, s.URL, "t", append(strings.Fields("run logs r1 s1"),
			strings.Fields(wrong)...)...); status != 2 || out != "" {
			t.Errorf("%s: status %d, %v: %.100s", wrong, status, err, out)
		}
	}
	out, status, err := dvt(t, s.URL, "t", "run", "logs", "r1")
	if status != 0 || !strings.HasPrefix(out, "log of step s1, which failed\nline 1\n") {
		t.Errorf("without a step: %d, %v\n%.200s", status, err, out)
	}
	out, status, err = dvt(t, s.URL, "t", "run", "logs", "r1", "s1")
	if n := strings.Count(out, "\n"); n != total-(resumes-hole-1) || status != 0 ||
		!strings.HasSuffix(out, "line 4500\n") {
		t.Errorf("%d lines, %d, %v", n, status, err)
	}
	var doc struct {
		Lines   []struct{ No int }
		Missing struct{ From, To int }
	}
	out, _, _ = dvt(t, s.URL, "t", "run", "logs", "r1", "s1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Lines) != total-(resumes-hole-1) ||
		doc.Lines[len(doc.Lines)-1].No != total || doc.Missing.To != resumes {
		t.Errorf("%d lines, missing %+v, %v", len(doc.Lines), doc.Missing, err)
	}
}

// After a lost connection the command continues behind the last line. It ends with the attempt.
func TestRunLogs_FollowReconnectsBehindTheLastLine(t *testing.T) {
	t.Parallel()
	from := make(chan int, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Variables struct{ FromLine int } }
		_ = json.NewDecoder(r.Body).Decode(&in)
		no := in.Variables.FromLine
		from <- no
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: next\ndata: {\"data\":{\"stepLogUpdates\":{\"attempt\":1,\"totalLines\":%d,\"complete\":%t,\"lines\":[{\"no\":%d,\"at\":\"2026-11-22T00:00:00Z\",\"stream\":\"stdout\",\"text\":\"line %d\"}]}}}\n\n", no, no == 2, no, no)
	}))
	t.Cleanup(s.Close)
	out, said, status := runSplit(t, s.URL, "t", "run", "logs", "r1", "s1", "-f")
	if a, b := <-from, <-from; status != 0 || out != "line 1\nline 2\n" || strings.Count(said, "OFFLINE") != 1 || a != 1 ||
		b != 2 {
		t.Errorf("status %d, asked from %d and %d, %q\n%s", status, a, b, said, out)
	}
}

// An attempt that does not exist must not look like one that printed nothing.
func TestRunLogs_UnknownAttemptIsNotFound(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	for _, number := range []string{"0", "7"} {
		if out, status, err := dvt(t, address, "dev-viewer", "run", "logs", "r1", "s1", "--attempt", number); status != 4 ||
			!strings.Contains(text(err), "s1 has had 1 attempt; there is no attempt "+number) {
			t.Errorf("--attempt %s: %d, %v\n%s", number, status, err, out)
		}
	}
}
