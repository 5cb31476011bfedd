// Package dbttest writes dbt projects for tests and benchmarks: of any number of models, with most kinds of nodes that
// projects of users have.
package dbttest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Project says what to write.
type Project struct {
	// Models is the number of models, at least 20. Each tenth is incremental, each tenth ephemeral, the others are views
	// and tables.
	Models int
	// Postgres is the URL of a database; "" means a DuckDB file in the directory of the project.
	Postgres string
}

// Broken is the var that makes the model Mid fail, when it is true, and with it the test DoomedTest.
const Broken = "broken"

// DoomedTest is the name of the test that fails when Broken is true, and Mid that of the model.
const (
	DoomedTest = "no_row_has_a_negative_id"
	Mid        = "m010"
)

// Write writes the project into a directory, which it creates. The name of the project is big. `dbt seed` must run
// before its models.
func (p Project) Write(dir string) error {
	files := map[string]string{
		"dbt_project.yml": projectFile, "macros/scaled.sql": macros, "models/exposures.yml": exposures,
		"tests/" + DoomedTest + ".sql":           doomedTest,
		"packages.yml":                           "packages:\n  - local: vendored/helpers\n",
		"vendored/helpers/dbt_project.yml":       helperProject,
		"vendored/helpers/macros/helped.sql":     helperMacro,
		"dbt_packages/helpers/dbt_project.yml":   helperProject, // what `dbt deps` makes of it
		"dbt_packages/helpers/macros/helped.sql": helperMacro,
	}
	profile, err := p.profile(dir)
	if err != nil {
		return err
	}
	files["profiles.yml"] = profile
	var snapshots, tests strings.Builder
	snapshots.WriteString("snapshots:\n")
	tests.WriteString("models:\n")
	for i := range seeds {
		var rows strings.Builder
		rows.WriteString("id,amount,label\n")
		for r := range 20 {
			fmt.Fprintf(&rows, "%d,%d,label %d\n", r, r*10+i, r%3)
		}
		files[fmt.Sprintf("seeds/raw_%d.csv", i)] = rows.String()
		fmt.Fprintf(&snapshots, "  - name: snap_%d\n    relation: ref('raw_%d')\n    config: {strategy: check, unique_key: id, "+
			"check_cols: all}\n", i, i)
	}
	for i := range p.Models {
		files["models/"+name(i)+".sql"] = p.model(i)
		if i%3 == 0 {
			fmt.Fprintf(&tests, "  - name: %s\n    columns:\n      - name: id\n        data_tests: [not_null, unique]\n", name(i))
		}
	}
	files["snapshots/snapshots.yml"] = snapshots.String()
	files["models/models.yml"] = tests.String() + unitTests
	for path, body := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			return err
		}
	}
	return nil
}

const seeds = 5

func name(i int) string { return fmt.Sprintf("m%03d", i) }

// IsEphemeral reports whether the model of this number is ephemeral.
func IsEphemeral(i int) bool { return i%10 == 7 }

// model returns a model that reads a seed, or two models of the layers before it.
func (p Project) model(i int) string {
	kind := "view"
	switch {
	case i%10 == 3:
		kind = "incremental"
	case IsEphemeral(i):
		kind = "ephemeral"
	case i%2 == 1 || i%10 == 0:
		kind = "table"
	}
	config := "{{ config(materialized='" + kind + "'"
	if kind == "incremental" {
		config += ", unique_key='id'"
	}
	config += ") }}\n"
	if i < 2*seeds {
		return config + fmt.Sprintf("select id, {{ scaled('amount') }} as amount, label from {{ ref('raw_%d') }}\n", i%seeds)
	}
	extra := ""
	if name(i) == Mid {
		extra = "{% if var('" + Broken + "', false) %}, no_such_column{% endif %}"
	}
	// Three layers: a chain of views would cost the warehouse more than dbt.
	below, other := i%10, 0
	if i >= 20 {
		below, other = 10+i%10, i%7
	}
	body := fmt.Sprintf("select a.id, a.amount + b.amount as amount, {{ helpers.helped('a.label') }} as label%s\n"+
		"from {{ ref('%s') }} a join {{ ref('%s') }} b on a.id = b.id\n", extra, name(below), name(other))
	if kind == "incremental" {
		body += "{% if is_incremental() %}where a.id > (select max(id) from {{ this }}){% endif %}\n"
	}
	return config + body
}

// profile returns profiles.yml.
func (p Project) profile(dir string) (string, error) {
	const head = "big:\n  target: dev\n  outputs:\n    dev:\n      threads: 2\n"
	if p.Postgres == "" {
		return head + fmt.Sprintf("      type: duckdb\n      path: %q\n", filepath.Join(dir, "warehouse.duckdb")), nil
	}
	u, err := url.Parse(p.Postgres)
	if err != nil {
		return "", fmt.Errorf("dbttest: the URL of the database: %w", err)
	}
	password, _ := u.User.Password()
	return head + fmt.Sprintf("      type: postgres\n      host: %q\n      port: %s\n      user: %q\n      password: %q\n"+
		"      dbname: %q\n      schema: analytics\n", u.Hostname(), u.Port(), u.User.Username(), password,
		strings.TrimPrefix(u.Path, "/")), nil
}

const projectFile = `name: big
version: "1.0"
config-version: 2
profile: big
model-paths: [models]
seed-paths: [seeds]
snapshot-paths: [snapshots]
macro-paths: [macros]
test-paths: [tests]
packages-install-path: dbt_packages
on-run-start: "select 1"
on-run-end: "select 1"
flags: {send_anonymous_usage_stats: false}
`

const macros = `{% macro scaled(column) %}({{ column }} * 100){% endmacro %}
`

const helperProject = `name: helpers
version: "1.0"
config-version: 2
macro-paths: [macros]
`

const helperMacro = `{% macro helped(column) %}upper({{ column }}){% endmacro %}
`

const exposures = `exposures:
  - name: board
    type: dashboard
    owner: {name: Ana, email: ana@example.com}
    depends_on: [ref('m000'), ref('m011')]
`

// The label of the seeds is mixed case and that of the models upper case, so nothing of it can be equal by accident.
const doomedTest = `select id from {{ ref('m001') }} where id < {{ 1 if var('` + Broken + `', false) else 0 }}
`

const unitTests = `unit_tests:
  - name: amounts_are_scaled
    model: m000
    given:
      - input: ref('raw_0')
        rows: [{id: 1, amount: 2, label: a}]
    expect: {rows: [{id: 1, amount: 200}]}
`
