package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// targetVars are the vars by which UPDATE_TARGET names the target of a dbt step.
var targetVars = []string{"dvt_target_database", "dvt_target_schema"} //nolint:gochecknoglobals // a constant list

// Bounds of the search for the readers of a var. A project that exceeds them is not judged.
const (
	maxProjectFiles = 20_000
	maxProjectFile  = 1 << 20 // bytes
)

// errFound ends a search that has its answer.
var errFound = errors.New("executor: found")

// checkTarget returns a *Failure when a step has a var that names its target and no file of the project or of the
// directory of profiles mentions the var. dbt ignores such a var and would write to the target that somebody wanted to
// leave.
func checkTarget(vars json.RawMessage, dirs ...string) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(vars, &given); err != nil {
		return nil //nolint:nilerr // not an object: dbt says so
	}
	for _, name := range targetVars {
		if _, ok := given[name]; !ok {
			continue
		}
		if !mentions(name, dirs) {
			return &Failure{Code: CodeDBTUsage, Category: run.CategoryUser, Class: plan.ClassValidation,
				Message: fmt.Sprintf("the target of this step was changed, but no file of the project reads the var %s, so dbt "+
					"would write to the old target: read it in profiles.yml, such as {{ var('%s', 'analytics') }}", name, name)}
		}
	}
	return nil
}

// mentions reports whether a file of dbt in one of the directories contains the text. It also returns true when it
// cannot tell, because a file cannot be read or there are too many.
func mentions(text string, dirs []string) bool {
	left := maxProjectFiles
	for _, dir := range slices.Compact(dirs) {
		root, err := os.OpenRoot(dir) // links do not lead out of it
		if err != nil {
			return true
		}
		err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if left--; left < 0 {
				return errFound
			}
			if !d.Type().IsRegular() || !slices.Contains([]string{".yml", ".yaml", ".sql", ".py"}, path.Ext(name)) {
				return nil
			}
			f, err := root.Open(name)
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			body, err := io.ReadAll(io.LimitReader(f, maxProjectFile))
			if err == nil && bytes.Contains(body, []byte(text)) {
				return errFound
			}
			return err
		})
		_ = root.Close()
		if err != nil {
			return true
		}
	}
	return false
}
