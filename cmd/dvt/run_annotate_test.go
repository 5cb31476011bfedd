package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

func TestRunTagAndNote_AnnotateARun(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1))
	for _, c := range []struct {
		token, args string
		status      int
		says, not   string
	}{
		{"dev-engineer", "run tag r1", 0, "", "late"},
		{"dev-engineer", "run tag r1 team:data late", 0, "late\nteam:data\n", ""},
		{"dev-engineer", "run tag r1 late", 0, "team:data", ""},
		{"dev-engineer", "run tag r1 --remove late", 0, "team:data\n", "late"},
		{"dev-engineer", "run tag r1 NOT-A-TAG", 2, "BAD_USER_INPUT", ""},
		{"dev-viewer", "run tag r1 mine", 3, "FORBIDDEN", ""},
		{"dev-viewer", "run list --tag team:data", 0, "r1", ""},
		{"dev-viewer", "run list --tag late", 0, "No run matches", "r1"},
		{"dev-viewer", "run note r1", 0, "The run has no notes.", ""},
		{"dev-engineer", "run note r1 checked", 0, "Added as note 1: dvt run note r1 shows all.", ""},
		{"dev-viewer", "run note r1", 0, "dev-engineer\n  checked\n", ""},
		{"dev-viewer", "run tag nope", 4, "NOT_FOUND", ""},
		{"dev-viewer", "run note nope", 4, "NOT_FOUND", ""},
	} {
		out, status, err := dvt(t, address, c.token, strings.Fields(c.args)...)
		said := out + text(err)
		if status != c.status || !strings.Contains(said, c.says) || c.not != "" && strings.Contains(said, c.not) {
			t.Errorf("dvt %s as %s: status %d, want %d, %q and no %q\n%s", c.args, c.token, status, c.status,
				c.says, c.not, said)
		}
	}
	if out, status, err := dvt(t, address, "dev-viewer", "run", "list", "--attention"); status != 0 {
		t.Errorf("run list --attention: status %d, %v\n%s", status, err, out)
	}
}

// Several people tag a run at the same time. The server changes the tags in one transaction, so that no tag is lost.
func TestRunTag_ConcurrentChangesLoseNothing(t *testing.T) {
	t.Parallel()
	address, _ := serveStarted(t)
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if out, status, err := dvt(t, address, "dev-engineer", "run", "tag", "r1", fmt.Sprint("t", i)); status != 0 {
				t.Errorf("tag %d: status %d, %v\n%s", i, status, err, out)
			}
		})
	}
	all.Wait()
	out, _, _ := dvt(t, address, "dev-engineer", "run", "tag", "r1")
	if n := len(strings.Fields(out)); n != 12 {
		t.Errorf("the run has %d tags, want 12:\n%s", n, out)
	}
}
