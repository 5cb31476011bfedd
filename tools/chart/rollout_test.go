package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the rendered objects that tests of other packages read")

// rolloutFile has the Deployments and settings of an installation. The upgrade tests of the package server play the
// kubelet with its numbers, without the engine of Helm.
const rolloutFile = "server/testdata/rollout.yaml"

func TestRollout_ReadsWhatTheChartRenders(t *testing.T) {
	documents, err := render(loadChart(t), mergedValues(t, `{data: {stepGraceSeconds: 60}}`), "1.34.0")
	must(t, err)
	var want strings.Builder
	want.WriteString("# From the chart: go test -C tools/chart -run Rollout -update .\n")
	for _, o := range parseObjects(t, documents) {
		if o.Kind == "Deployment" || o.Kind == "ConfigMap" && strings.HasSuffix(o.Metadata.Name, "-config") {
			want.WriteString("---\n" + strings.TrimSpace(o.text) + "\n")
		}
	}
	path := filepath.Join(repository, rolloutFile)
	if *update {
		must(t, os.WriteFile(path, []byte(want.String()), 0o600))
		return
	}
	have, err := os.ReadFile(path)
	must(t, err)
	if string(have) != want.String() {
		t.Errorf("%s is not what the chart renders: run go test -C tools/chart -run Rollout -update .", rolloutFile)
	}
}
