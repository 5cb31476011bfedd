package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const repository = "../.."

// versions are the versions of Kubernetes whose schemas tools/chart/schemas has.
var versions = []string{"1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0"}

// foreign are the kinds of operators, which Kubernetes has no schemas of.
var foreign = map[string]struct{}{"ServiceMonitor": {}, "PrometheusRule": {}, "ScaledObject": {}}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(filepath.Join(repository, chartDir))
	must(t, err)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mergedValues are those of an installation with further ones over them.
func mergedValues(t *testing.T, more string) map[string]any {
	t.Helper()
	base := parseValues(t, installation)
	return mergeOver(base, parseValues(t, more))
}

func mergeOver(base, over map[string]any) map[string]any {
	for k, v := range over {
		b, isMap := base[k].(map[string]any)
		if o, ok := v.(map[string]any); ok && isMap {
			base[k] = mergeOver(b, o)
			continue
		}
		base[k] = v
	}
	return base
}

// newValidator returns kubeconform, strict, on the schemas of a version.
func newValidator(t *testing.T, version string) validator.Validator {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("schemas", version+".json.gz"))
	must(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	text, err := io.ReadAll(z)
	must(t, err)
	var files map[string]json.RawMessage
	must(t, json.Unmarshal(text, &files))
	dir := t.TempDir()
	for name, schema := range files {
		must(t, os.WriteFile(filepath.Join(dir, name+".json"), schema, 0o600))
	}
	v, err := validator.New([]string{dir + "/{{.ResourceKind}}{{.KindSuffix}}.json"},
		validator.Opts{Strict: true, KubernetesVersion: version, SkipKinds: foreign, RejectKinds: map[string]struct{}{}})
	must(t, err)
	return v
}

// validate returns an error for each document that a version of Kubernetes refuses.
func validate(v validator.Validator, documents []string) (wrong []error) {
	for _, d := range documents {
		for _, r := range v.Validate("", io.NopCloser(strings.NewReader(d))) {
			if r.Status == validator.Invalid || r.Status == validator.Error {
				wrong = append(wrong, fmt.Errorf("%w in\n%s", r.Err, d))
			}
		}
	}
	return wrong
}

// Every two choices of an installation occur together in one of the combinations. Each of them is valid on every
// version, safe, and has settings that dvt knows.
func TestChart_EveryPairOfChoicesIsValid(t *testing.T) {
	c, rows := loadChart(t), pairwise()
	t.Logf("%d combinations of %d factors", len(rows), len(factors))
	validators := map[string]validator.Validator{}
	for _, version := range versions {
		validators[version] = newValidator(t, version)
	}
	checked := map[string]bool{}
	for i, row := range rows {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			documents, err := render(c, valuesOf(t, row), versions[i%len(versions)])
			must(t, err)
			for _, version := range versions {
				for _, err := range validate(validators[version], documents) {
					t.Errorf("Kubernetes %s refuses: %v", version, err)
				}
			}
			objects := parseObjects(t, documents)
			checkSafety(t, objects)
			checkUnique(t, objects)
			checkSettings(t, objects, checked)
		})
	}
}

// Without this test, schemas in a wrong place would accept everything.
func TestSchemas_RefuseUnknownFieldsAndWrongTypes(t *testing.T) {
	for _, version := range versions {
		v := newValidator(t, version)
		for name, document := range map[string]string{
			"an unknown field": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {prots: []}\n",
			"a wrong type":     "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: x}]}\n",
		} {
			if wrong := validate(v, []string{document}); len(wrong) != 1 {
				t.Errorf("%s: %s gave %v, want one error", version, name, wrong)
			}
		}
		valid := "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 1}]}\n"
		if wrong := validate(v, []string{valid}); len(wrong) != 0 {
			t.Errorf("%s: a valid Service gave %v", version, wrong)
		}
	}
}

func TestChart_LintsWithoutAWarning(t *testing.T) {
	l := lint.AllWithKubeVersion(filepath.Join(repository, chartDir), mergedValues(t, "{}"), "dvt", nil)
	for _, m := range l.Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("helm lint: %v", m)
		}
	}
}

func TestChart_RefusesValuesThatCannotWork(t *testing.T) {
	c := loadChart(t)
	for name, x := range map[string]struct{ values, want string }{
		"an unknown value":             {"{servr: {}}", "servr"},
		"an unknown nested value":      {"{data: {autoscaling: {enable: true}}}", "enable"},
		"no store":                     {"{config: {store: null}}", "store"},
		"a secret among the settings":  {"{config: {ticket-keys: [a]}}", "config.ticket-keys is a secret"},
		"a worker with a store":        {"{workerConfig: {store: x}}", "workerConfig.store"},
		"a password of the store":      {"{config: {store: 'postgres://dvt:hunter2@db/dvt'}}", "config.store has a password"},
		"a password in a query":        {"{config: {store: 'postgres://dvt@db/dvt?password=hunter2'}}", "config.store"},
		"a password of Redis":          {"{config: {redis: 'rediss://:hunter2@redis:6379/0'}}", "config.redis"},
		"a password of the owner":      {"{migrate: {store: 'postgres://owner:hunter2@db/dvt'}}", "migrate.store"},
		"a client secret":              {"{config: {oidc: [{name: a, clientSecret: hunter2}]}}", "config.oidc"},
		"queues that no worker serves": {"{config: {data-queue: tq-work}}", "config.data-queue cannot be set"},
		"metrics that nobody may read": {"{monitoring: {serviceMonitor: {enabled: true}}}", "metricsFrom"},
		"isolation of another tenant": {`{config: {isolation-tenants: [a]}, isolation: [
			{tenant: b, environment: c, existingSecret: d}]}`, "b does not use"},
		"two workers of one name": {`{config: {isolation-tenants: [a, a-b]}, isolation: [
			{tenant: a, environment: b-c, existingSecret: d}, {tenant: a-b, environment: c, existingSecret: d}]}`, "one name"},
		"no certificate":            {"{server: {tls: {existingSecret: ''}}}", "server.tls.existingSecret"},
		"no token of workers":       {"{data: {existingSecret: ''}}", "existingSecret"},
		"no password of the owner":  {"{migrate: {existingSecret: ''}}", "migrate.existingSecret"},
		"a setting of the chart":    {"{config: {listen: 'x:1'}}", "config.listen is written by the chart"},
		"KEDA without Prometheus":   {"{data: {keda: {enabled: true}}}", "prometheusAddress"},
		"an ingress without a host": {"{server: {ingress: {enabled: true}}}", "ingress.host"},
		"isolation of nobody": {"{isolation: [{tenant: a, environment: b, existingSecret: c}]}",
			"config.isolation-tenants"},
	} {
		values := mergedValues(t, x.values)
		if _, err := render(c, values, "1.34.0"); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s gave %v, want an error with %q", name, err, x.want)
		}
	}
	if _, err := render(c, map[string]any{}, "1.34.0"); err == nil || !strings.Contains(err.Error(), "store") {
		t.Errorf("the defaults alone gave %v, want an error that names the store", err)
	}
}

func TestTable_IsThatOfTheSchema(t *testing.T) {
	want, err := table(loadChart(t))
	must(t, err)
	got, err := os.ReadFile(filepath.Join(repository, "docs", "helm-values.md"))
	if err != nil || string(got) != want {
		t.Errorf("docs/helm-values.md is not current (%v): run make chart/table", err)
	}
}

// The schema has each value of values.yaml and no other, so a value without an effect cannot be set.
func TestSchema_HasTheValuesOfTheDefaults(t *testing.T) {
	c := loadChart(t)
	var root schema
	must(t, json.Unmarshal(c.Schema, &root))
	compareNames(t, "", root, c.Values)
}

func compareNames(t *testing.T, prefix string, s schema, defaults map[string]any) {
	t.Helper()
	for name, p := range s.Properties {
		value, ok := defaults[name]
		if !ok && prefix+name != "global" {
			t.Errorf("values.yaml has no default of %s%s", prefix, name)
		}
		if closed, isBool := p.AdditionalProperties.(bool); isBool && !closed {
			nested, _ := value.(map[string]any)
			compareNames(t, prefix+name+".", p, nested)
		}
		if p.Description == "" {
			t.Errorf("%s%s has no description", prefix, name)
		}
	}
}

type object struct {
	APIVersion, Kind string
	Metadata         struct {
		Name                string
		Labels, Annotations map[string]string
	}
	Spec, Data map[string]any
	text       string
}

func parseObjects(t *testing.T, documents []string) (all []object) {
	t.Helper()
	for _, d := range documents {
		var o object
		if err := yaml.Unmarshal([]byte(d), &o); err != nil {
			t.Fatalf("%v\n%s", err, d)
		}
		o.text = d
		all = append(all, o)
	}
	return all
}

func (o *object) name() string { return o.Kind + " " + o.Metadata.Name }

// podSpec returns the specification of the pods of an object, or nil.
func (o *object) podSpec() map[string]any {
	switch o.Kind {
	case "Pod":
		return o.Spec
	case "CronJob":
		return at(o.Spec, "jobTemplate", "spec", "template", "spec")
	case "Deployment", "Job":
		return at(o.Spec, "template", "spec")
	}
	return nil
}

func at(m map[string]any, path ...string) map[string]any {
	for _, p := range path {
		m, _ = m[p].(map[string]any)
	}
	return m
}

func checkUnique(t *testing.T, objects []object) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range objects {
		if seen[o.name()] {
			t.Errorf("%s occurs twice", o.name())
		}
		seen[o.name()] = true
		if len(o.Metadata.Name) > 63 {
			t.Errorf("%s has a name of more than 63 characters", o.name())
		}
	}
}

// checkSettings runs `dvt config check` on the settings of servers and of workers, once for each content.
func checkSettings(t *testing.T, objects []object, checked map[string]bool) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(repository, "bin", "dvt"))
	must(t, err)
	for _, o := range objects {
		for file, text := range o.Data {
			process := map[string]string{"dvt.yaml": "server", "worker.yaml": "data-worker"}[file]
			content, _ := text.(string)
			if process == "" || checked[content] {
				continue
			}
			checked[content] = true
			path := filepath.Join(t.TempDir(), file)
			must(t, os.WriteFile(path, []byte(content), 0o600))
			args := []string{"config", "check", "--config", path}
			if process == "data-worker" {
				args = append(args, "--queues", "tq-data-prod")
			}
			c := exec.CommandContext(t.Context(), program, args...)
			c.Env = append(os.Environ(), "DVT_TICKET_KEYS="+someKeys, "DVT_SIGN_IN_KEY="+someKeys,
				"DVT_MANUAL_KEYS="+someKeys)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Errorf("%s: dvt config check: %v\n%s\nof\n%s", o.name(), err, out, content)
			}
		}
	}
}

// someKeys has the form of keys of tickets.
const someKeys = "k1:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

func containers(spec map[string]any) (all []map[string]any) {
	for _, key := range []string{"initContainers", "containers"} {
		list, _ := spec[key].([]any)
		for _, c := range list {
			m, _ := c.(map[string]any)
			all = append(all, m)
		}
	}
	return all
}

func contains(list any, want string) bool {
	all, _ := list.([]any)
	return slices.Contains(all, any(want))
}
