package executor

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// maxArgument is the maximum size of one argument of a program in bytes, by Linux.
const maxArgument = 128<<10 - 1

// withParams writes the run's parameters to a file of this execution. Programs find its path in DVT_PARAMS_FILE. remove
// removes the file and is nil only with an error. A run without parameters has no file.
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

// dbtVars returns the vars of a dbt step: the run's parameters and the step's own vars, which win.
func dbtVars(params, own json.RawMessage) (json.RawMessage, error) {
	var all, vars map[string]json.RawMessage
	if len(params) > 0 && json.Unmarshal(params, &all) != nil {
		all = nil // only the fields of an object can be vars
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
