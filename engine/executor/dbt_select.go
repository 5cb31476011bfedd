package executor

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor/dbtlog"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
)

// maxSelectBytes bounds the names of nodes on a command line. Only versions of dbt that cannot select by the id have
// them there; Linux accepts 2 MiB of arguments and environment together.
const maxSelectBytes = 512 << 10

// selectionDir is the directory within that of an attempt from which dbt reads the nodes to execute.
const selectionDir = "selection"

// idsOf returns the ids of the nodes of a selection.
func idsOf(nodes []engine.SelectedNode) []string {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	return ids
}

// selectArgs returns the arguments by which dbt executes exactly the nodes of a selection. dbt 1 selects the nodes that
// failed in the results of an earlier execution: the worker writes such results, in which only the ids count, so
// neither the length of a command line nor a name with special characters matters. Other versions get the name, type
// and file of each node. No test runs because a node that it reads is selected.
func selectArgs(files workspace, own string, sel *engine.NodeSelection) ([]string, error) {
	if !nodeset.SelectsByID(sel.DBTVersion) {
		return selectByName(sel)
	}
	type result struct {
		UniqueID string            `json:"unique_id"`
		Status   string            `json:"status"`
		Timing   []struct{}        `json:"timing"`
		Thread   string            `json:"thread_id"`
		Seconds  float64           `json:"execution_time"`
		Adapter  map[string]string `json:"adapter_response"`
		Message  *string           `json:"message"`
		Failures *int              `json:"failures"`
		Compiled bool              `json:"compiled"`
		Code     *string           `json:"compiled_code"`
		Relation *string           `json:"relation_name"`
		Batches  *string           `json:"batch_results"`
	}
	results := make([]result, len(sel.Nodes))
	for i, n := range sel.Nodes {
		results[i] = result{UniqueID: n.ID, Status: "error", Timing: []struct{}{}, Adapter: map[string]string{}}
	}
	doc, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"dbt_schema_version": "https://schemas.getdbt.com/dbt/run-results/v6.json",
			"dbt_version": sel.DBTVersion, "generated_at": "2026-01-01T00:00:00Z", "env": map[string]string{}},
		"results": results, "elapsed_time": 0, "args": map[string]string{},
	})
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(own, selectionDir)
	if err := files.create(filepath.Join(dir, "run_results.json"), doc); err != nil {
		return nil, fmt.Errorf("executor: dbt: the nodes to retry: %w", err)
	}
	return []string{"--select", "result:error", "--state", dir, "--indirect-selection", "empty"}, nil
}

// selectByName selects nodes by their names, types and files.
func selectByName(sel *engine.NodeSelection) ([]string, error) {
	argv, size := []string{"--select"}, 0
	for _, n := range sel.Nodes {
		kind, _, _ := strings.Cut(n.ID, ".")
		name := strings.Join(n.FQN, ".")
		if name == "" || n.Path == "" || strings.ContainsAny(name+n.Path, ",+@*?[] \t\n\"'") {
			return nil, &Failure{Code: CodeDBTUsage, Category: run.CategoryUser, Class: plan.ClassValidation,
				Message: fmt.Sprintf("this version of dbt cannot select the node %s by its name and file: retry the whole step",
					n.ID)}
		}
		arg := "fqn:" + name + ",resource_type:" + kind + ",path:" + n.Path
		argv, size = append(argv, arg), size+len(arg)+1
	}
	if size > maxSelectBytes {
		return nil, &Failure{Code: CodeDBTUsage, Category: run.CategoryUser, Class: plan.ClassValidation,
			Message: fmt.Sprintf("%d nodes are too many for the command line of this version of dbt: retry fewer nodes, or the "+
				"whole step", len(sel.Nodes))}
	}
	return append(argv, "--indirect-selection", "empty"), nil
}

// checkSelection returns the *Failure of an execution of a selection that dbt ended well: dbt did not execute a node of
// it, or nodes outside of it did not end well, so that the step as a whole has not succeeded.
func checkSelection(sel *engine.NodeSelection, results runResults) *Failure {
	if sel == nil {
		return nil
	}
	ended := map[string]run.NodeStatus{}
	for _, n := range results.Results {
		ended[n.UniqueID] = dbtlog.StatusOf(n.Status)
	}
	if missing := nodeset.Rest(idsOf(sel.Nodes), ended); len(missing) > 0 {
		return &Failure{Code: CodeDBTNodesMissing, Retryable: true, Category: run.CategoryUser,
			Message: fmt.Sprintf("dbt did not run %s: the project no longer has them, or has disabled them; retry the whole step",
				named(missing, len(missing)))}
	}
	if sel.OpenCount > 0 {
		return &Failure{Code: CodeDBTNodesOpen, Retryable: true, Category: run.CategoryUser,
			Message: fmt.Sprintf("the chosen nodes ended well, but %s did not in attempt %d: retry them too",
				named(sel.Open, sel.OpenCount), sel.Base)}
	}
	return nil
}

// named names the first nodes, and counts the others.
func named(ids []string, count int) string {
	const most = 3
	text := strings.Join(ids[:min(len(ids), most)], ", ")
	if count > most {
		text += fmt.Sprintf(" and %d more", count-most)
	}
	return text
}
