package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A log of more lines than a page is printed whole: as lines, and as one document.
func TestRunLogs_ReadsEveryPage(t *testing.T) {
	t.Parallel()
	const total = 2500
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
			t.Errorf("%+v, %v", in, err)
		}
		lines := []map[string]any{}
		for no := in.Variables.FromLine; no <= total && len(lines) < in.Variables.First; no++ {
			lines = append(lines, map[string]any{"no": no, "at": "2026-11-22T00:00:00Z", "stream": "stdout", "text": fmt.Sprintf("line %d", no)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"stepLog": map[string]any{"attempt": 1, "totalLines": total, "lines": lines}}})
	}))
	t.Cleanup(s.Close)
	for args, want := range map[string]string{
		"--grep 99":             "line 99\nline 199\n",
		"--tail 2":              "line 2499\nline 2500\n",
		"--tail 9000":           "line 1\n",
		"--failed":              "line 2498\nline 2499\n",
		"--tail 1 --timestamps": "2026-11-22 00:00:00.000Z  stdout  line 2500\n",
		"--since 1ms":           "",
	} {
		if out, status, err := dvt(t, s.URL, "t", append(strings.Fields("run logs r1 s1"), strings.Fields(args)...)...); status != 0 || !strings.HasPrefix(out, want) || want == "" && out != "" {
			t.Errorf("%s: %d, %v\n%.200s", args, status, err, out)
		}
	}
	out, status, err := dvt(t, s.URL, "t", "run", "logs", "r1")
	if status != 0 || !strings.HasPrefix(out, "step s1\nline 1\n") {
		t.Errorf("without a step: %d, %v\n%.200s", status, err, out)
	}
	out, status, err = dvt(t, s.URL, "t", "run", "logs", "r1", "s1")
	if n := strings.Count(out, "\n"); n != total || status != 0 || !strings.HasSuffix(out, "line 2500\n") {
		t.Errorf("%d lines, %d, %v", n, status, err)
	}
	var doc struct{ Lines []struct{ No int } }
	out, _, _ = dvt(t, s.URL, "t", "run", "logs", "r1", "s1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Lines) != total || doc.Lines[total-1].No != total {
		t.Errorf("%d lines, %v", len(doc.Lines), err)
	}
}
