package executor

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor/dbtlog"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
)

const (
	logsDir = "logs" // within the directory of an attempt; dbt writes its log file into it
	// maxKeptLog is the size of the largest log file of an earlier try that is read, in bytes, and keptLogs the number of
	// files: dbt begins another one after 10 MiB, and keeps five.
	maxKeptLog = 64 << 20
	keptLogs   = 6
)

// attemptDir is the directory of one try of an attempt within the workspace of a run.
func attemptDir(t Task, engineAttempt int) string {
	return filepath.Join(t.Workspace, "dbt", t.Step.StepID, fmt.Sprintf("%d.%d", t.LogicalAttempt, engineAttempt))
}

// withoutEnded returns the selection without the nodes that an earlier try of the attempt ended well on this worker, by
// the log files that dbt wrote itself. A worker that is killed has not reported what ended last; dbt's file has it, up
// to the moment of the kill. It reports these nodes, so that the log of the run has their ends.
func withoutEnded(t Task, h Host, files workspace, sel *engine.NodeSelection) *engine.NodeSelection {
	ended := map[string]run.StepNode{}
	for try := 1; try < t.EngineAttempt; try++ {
		for i := range keptLogs {
			name := "dbt.log"
			if i > 0 {
				name += fmt.Sprintf(".%d", i)
			}
			// A try on another worker left no file here, and the nodes of a file that cannot be read run again.
			_ = files.open(filepath.Join(attemptDir(t, try), logsDir, name), maxKeptLog, func(f io.Reader, size int64) error {
				eachLine(io.LimitReader(f, size), func(line string) { noteEnd(ended, line) })
				return nil
			})
		}
	}
	statuses := make(map[string]run.NodeStatus, len(ended))
	for id, n := range ended {
		statuses[id] = n.Status
	}
	rest := nodeset.Rest(idsOf(sel.Nodes), statuses)
	if len(rest) == len(sel.Nodes) {
		return sel
	}
	left := make(map[string]bool, len(rest))
	for _, id := range rest {
		left[id] = true
	}
	out := *sel
	out.Nodes = nil
	for _, n := range sel.Nodes {
		if left[n.ID] {
			out.Nodes = append(out.Nodes, n)
			continue
		}
		h.ReportNode(ended[n.ID], 0)
	}
	h.Print("dvt", fmt.Sprintf("%d nodes ended well in a try that was interrupted, and do not run again",
		len(sel.Nodes)-len(out.Nodes)))
	return &out
}

// noteEnd notes the node that a line of dbt's log says ended well.
func noteEnd(ended map[string]run.StepNode, line string) {
	event, ok := dbtlog.Parse(line)
	if !ok || event.Node == nil || event.Node.Status != run.NodeSuccess && event.Node.Status != run.NodeWarn {
		return
	}
	n := *event.Node
	if _, known := ended[n.ID]; known || len(ended) >= run.MaxNodes {
		return
	}
	if n.Type == "" {
		n.Type, _, _ = strings.Cut(n.ID, ".")
	}
	ended[n.ID] = n
}
