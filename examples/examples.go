// Package examples holds the sample dbt project and the plans that a newcomer
// runs first. It promises that the plans it renders are valid and that running
// them leaves this directory as it was.
package examples

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"
)

// FS holds plans/, the dbt project shop/ and broken/, whose script the plan of
// that name runs. The plans expect them under examples/ of a worker's project root (T230).
//
//go:embed plans shop broken
var FS embed.FS

// Names of the plans.
const (
	Shop   = "shop"   // a real dbt project: compile, check, build, test, notify
	Broken = "broken" // fails at its second step until a file exists
)

// Values are what the plans are rendered with.
type Values struct {
	NotifyURL string // of what takes a POST of HTTP_NOTIFY
	Data      string // an existing directory, as an absolute path: databases and fix-me.txt lie in it (T219)
}

// Plan renders the plan of that name as a JSON document.
func Plan(name string, v Values) ([]byte, error) {
	if !slices.Contains([]string{Shop, Broken}, name) {
		return nil, fmt.Errorf("examples: there is no plan %q", name)
	}
	t, err := template.ParseFS(FS, path.Join("plans", name+".json"))
	if err != nil {
		return nil, fmt.Errorf("examples: plan %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, Values{NotifyURL: inString(v.NotifyURL), Data: inString(v.Data)}); err != nil {
		return nil, fmt.Errorf("examples: plan %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// inString is s as it stands between the quotes of a JSON string.
func inString(s string) string {
	quoted, _ := json.Marshal(s) // a string always marshals
	return strings.TrimSuffix(strings.TrimPrefix(string(quoted), `"`), `"`)
}
