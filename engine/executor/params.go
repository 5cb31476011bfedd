package executor

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// maxArgument is the most bytes of one argument that Linux takes.
const maxArgument = 128<<10 - 1

// withParams puts the run's parameters into a file of the execution's own, which
// processes find in DVT_PARAMS_FILE; remove takes it away. A run without
// parameters has no file.
func (t Task) withParams() (with Task, remove func(), err error) {
	if len(t.Params) == 0 {
		return t, func() {}, nil
	}
	files := workspace{t.Workspace}
	t.paramsFile = filepath.Join(t.Workspace, ".dvt", fmt.Sprintf("%s.%d.%d.params.json", t.Step.StepID, t.LogicalAttempt,
		t.EngineAttempt))
	if err := files.create(t.paramsFile, t.Params); err != nil {
		return t, nil, fmt.Errorf("parameters: %s", reason(err))
	}
	return t, func() { _ = files.remove(t.paramsFile) }, nil
}

// dbtVars are the vars of a dbt step: the run's parameters, and over them the
// step's own.
func dbtVars(params, own json.RawMessage) (json.RawMessage, error) {
	var all, vars map[string]json.RawMessage
	if len(params) > 0 && json.Unmarshal(params, &all) != nil {
		all = nil // parameters that are no object have no names
	}
	if len(all) == 0 {
		return own, nil
	}
	if len(own) > 0 {
		if err := json.Unmarshal(own, &vars); err != nil {
			return nil, err
		}
	}
	for name, v := range vars {
		all[name] = v
	}
	out, err := json.Marshal(all)
	if err == nil && len(out) > maxArgument {
		return nil, &Failure{Code: CodeInputsInvalid, Category: run.CategoryUser, Class: plan.ClassValidation,
			Message: fmt.Sprintf("the parameters and vars have %d bytes together; dbt takes at most %d", len(out), maxArgument)}
	}
	return out, err
}
