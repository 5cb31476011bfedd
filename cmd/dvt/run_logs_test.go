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
			Variables struct{ FromLine, First int }
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Variables.First > logPage {
			t.Errorf("%+v, %v", in, err)
		}
		lines := []map[string]any{}
		for no := in.Variables.FromLine; no <= total && len(lines) < in.Variables.First; no++ {
			lines = append(lines, map[string]any{"no": no, "at": "2026-11-22T00:00:00Z", "stream": "stdout", "text": fmt.Sprintf("line %d", no)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"stepLog": map[string]any{"attempt": 1, "totalLines": total, "lines": lines}}})
	}))
	t.Cleanup(s.Close)
	out, status, err := dvt(t, s.URL, "t", "run", "logs", "r1", "s1")
	if n := strings.Count(out, "\n"); n != total || status != 0 || !strings.HasSuffix(out, "line 2500\n") {
		t.Errorf("%d lines, %d, %v", n, status, err)
	}
	var doc struct{ Lines []struct{ No int } }
	out, _, _ = dvt(t, s.URL, "t", "run", "logs", "r1", "s1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Lines) != total || doc.Lines[total-1].No != total {
		t.Errorf("%d lines, %v", len(doc.Lines), err)
	}
}
