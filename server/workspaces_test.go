package server_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
)

// A workspace ends with its run, also when the worker was killed within a step and another process took over. A run
// that writes more than its bound fails with a code that says so.
func TestWorkspaces_EndWithTheirRuns(t *testing.T) {
	t.Parallel()
	p := startDeployment(t)
	ada := client.New(p.urlA, adaToken)
	dir := filepath.Join(p.dir, "data")
	// The rest of a removal that a kill interrupted, a workspace that nobody has used for long, and a foreign directory.
	rest, old := filepath.Join(dir, ".removing-x"), filepath.Join(dir, "0a1b2c3d-1111-4222-8333-444455556666")
	foreign := filepath.Join(dir, "somebody")
	long := time.Now().Add(-48 * time.Hour)
	for _, path := range []string{rest, old, foreign} {
		must(t, os.MkdirAll(filepath.Join(path, "sub"), 0o700))
	}
	must(t, os.Chmod(filepath.Join(rest, "sub"), 0)) // programs may change modes
	must(t, os.Chtimes(old, long, long))
	must(t, os.Chtimes(foreign, long, long))

	runID := start(t, ada, "workspace", stepsPlan("workspace",
		`{"stepId":"write","type":"COMMAND","timeout":"1m","dependsOn":[],"inputs":{"argv":["sh","-c",
			"echo text > file; mkdir closed; echo x > closed/f; chmod 0 closed"]}}`,
		`{"stepId":"nap","type":"COMMAND","timeout":"1m","dependsOn":["write"],"retry":{"maxAttempts":5,
			"initialBackoffMs":200},"inputs":{"argv":["sh","-c","cat file; touch napping; sleep 8"]}}`))
	napping := filepath.Join(dir, runID, "napping")
	waitUntil(t, "the step works", time.Minute, func() bool { _, err := os.Stat(napping); return err == nil })
	p.data.kill()
	must(t, os.Remove(napping))
	p.data = spawn(t, "data worker", p.data.env, p.data.argsWith("--workspace-max", "4Mi")...)
	waitUntil(t, "the step works again", time.Minute, func() bool { _, err := os.Stat(napping); return err == nil })
	if _, err := os.Stat(filepath.Join(dir, runID, "file")); err != nil {
		t.Errorf("the workspace of a run that goes on was removed: %v", err)
	}
	if r := waitForEnd(t, ada, runID, time.Minute); r.Status != client.RunStatusCompleted {
		t.Fatalf("the run ended %s, want COMPLETED", r.StatusRaw)
	}
	began := time.Now()
	waitUntil(t, "the worker removes the workspace of the ended run", time.Minute, func() bool {
		_, err := os.Stat(filepath.Join(dir, runID))
		return os.IsNotExist(err)
	})
	t.Logf("the workspace is gone %s after the end of the run", time.Since(began).Round(100*time.Millisecond))

	large := start(t, ada, "large", stepsPlan("large", `{"stepId":"fill","type":"COMMAND","timeout":"1m","dependsOn":[],
		"retry":{"maxAttempts":1},"inputs":{"argv":["sh","-c","head -c 3000000 /dev/zero > a; cp a b; sleep 45"]}}`))
	began = time.Now()
	r := waitForEnd(t, ada, large, time.Minute)
	if len(r.Steps) != 1 || r.Steps[0].Error == nil || r.Steps[0].Error.Code != "WORKSPACE_FULL" {
		t.Errorf("the run with too many files ended %s with %+v, want WORKSPACE_FULL", r.StatusRaw, r.Steps)
	}
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("the step was ended after %s, want soon after its workspace was full", took)
	}
	waitUntil(t, "only what is not a workspace stays", time.Minute, func() bool {
		names := []string{}
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return slices.Equal(names, []string{"somebody"})
	})
}
