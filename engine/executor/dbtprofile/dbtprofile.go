// Package dbtprofile reads from a dbt project which warehouse it connects to. It reads the address of the connection
// only, and no user, password, token or key.
package dbtprofile

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxFile bounds the files that are read, in bytes.
const maxFile = 1 << 20

// Source says where a profile is read, and what its expressions read.
type Source struct {
	Project  string // the directory of dbt_project.yml
	Profiles string // the directory of profiles.yml
	Target   string // of the command line, or ""
	Env      []string
	Vars     json.RawMessage // of the command line
}

// Namespace returns the namespace that OpenLineage has of the datasets of the project, such as postgres://db:5432. It
// is "" when the profile cannot be read, has expressions other than env_var and var, or is of an adapter that is not
// known.
func Namespace(s Source) string {
	r := newRenderer(s)
	var project struct {
		Profile string `yaml:"profile"`
	}
	if err := read(s.Project, "dbt_project.yml", &project); err != nil {
		return ""
	}
	name := first(r.env["DBT_PROFILE"], r.text(project.Profile))
	var profiles map[string]yaml.Node
	if err := read(s.Profiles, "profiles.yml", &profiles); err != nil {
		return ""
	}
	var profile struct {
		Target  string                    `yaml:"target"`
		Outputs map[string]map[string]any `yaml:"outputs"`
	}
	node, found := profiles[name]
	if !found || node.Decode(&profile) != nil {
		return ""
	}
	target, _, _ := strings.Cut(strings.TrimSpace(s.Target), " ")
	output := profile.Outputs[first(target, r.env["DBT_TARGET"], r.text(profile.Target), "default")]
	space := namespaceOf(func(key string) string {
		if v, found := output[key]; found && v != nil {
			return r.text(fmt.Sprint(v))
		}
		return ""
	})
	// A text that may have a user, a password or parameters is no address.
	if strings.ContainsAny(space, "@?&# \t\r\n") {
		return ""
	}
	return space
}

// namespaceOf returns the namespace of a connection. get returns a field, "" for one that is not known.
func namespaceOf(get func(key string) string) string {
	at := func(scheme, host, port string) string {
		if host == "" {
			return ""
		}
		if port != "" {
			port = ":" + port
		}
		return scheme + "://" + host + port
	}
	switch adapter := get("type"); adapter {
	case "duckdb":
		path, _, _ := strings.Cut(get("path"), "?") // the parameters of MotherDuck can have a token
		return at("duckdb", path, "")
	case "postgres":
		return at("postgres", get("host"), first(get("port"), "5432"))
	case "redshift":
		return at("redshift", get("host"), first(get("port"), "5439"))
	case "clickhouse", "trino":
		return at(adapter, get("host"), get("port"))
	case "databricks":
		return at("databricks", get("host"), "")
	case "sqlserver":
		return at("mssql", get("server"), first(get("port"), "1433"))
	case "snowflake":
		return at("snowflake", snowflakeAccount(get("account")), "")
	case "bigquery":
		return "bigquery"
	}
	return ""
}

// snowflakeAccount completes an account locator by the region and cloud that Snowflake assumes. A name with a hyphen is
// that of an organization and an account, which have neither.
func snowflakeAccount(account string) string {
	parts := strings.Split(account, ".")
	switch {
	case account == "", strings.Contains(parts[0], "-"):
		return parts[0]
	case len(parts) == 1:
		return account + ".us-west-1.aws"
	case len(parts) == 2: //nolint:mnd // locator and region
		return account + ".aws"
	}
	return account
}

// expression is a call of env_var or var, with or without a default, and filters that only change the type.
var expression = regexp.MustCompile(
	`\{\{-?\s*(env_var|var)\(\s*['"]([^'"]+)['"]\s*(?:,\s*(?:['"]([^'"]*)['"]|([0-9]+))\s*)?\)` +
		`\s*(?:\|\s*(?:int|as_number|as_text|string|trim)\s*)*-?\}\}`)

type renderer struct {
	env  map[string]string
	vars map[string]any
}

func newRenderer(s Source) renderer {
	r := renderer{env: map[string]string{}}
	for _, pair := range s.Env {
		name, value, _ := strings.Cut(pair, "=")
		r.env[name] = value
	}
	_ = json.Unmarshal(s.Vars, &r.vars) // without vars the defaults hold
	return r
}

// text returns a text with the values of its expressions, or "" when one of them is not known. Variables that dbt
// treats as secrets are not known.
func (r renderer) text(text string) string {
	unknown := false
	out := expression.ReplaceAllStringFunc(text, func(call string) string {
		m := expression.FindStringSubmatch(call)
		function, name, otherwise := m[1], m[2], m[3]+m[4]
		if strings.HasPrefix(name, "DBT_ENV_SECRET") {
			unknown = true
			return ""
		}
		if value, found := r.env[name]; found && function == "env_var" {
			return value
		}
		if value, found := r.vars[name]; found && function == "var" {
			return fmt.Sprint(value)
		}
		unknown = unknown || otherwise == ""
		return otherwise
	})
	if unknown || strings.Contains(out, "{{") || strings.Contains(out, "{%") {
		return ""
	}
	return out
}

// read decodes a YAML file of a directory. Links do not lead out of it.
func read(dir, name string, into any) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("dbtprofile: %s is no file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	doc, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err
	}
	return yaml.Unmarshal(doc, into)
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
