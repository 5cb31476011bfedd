package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/dvt-engine/dvt"
)

// asker makes operations of every field of the schema.
type operationBuilder struct {
	t      *testing.T
	schema *ast.Schema
	used   map[string]bool // keys of slots
}

func newOperationBuilder(t *testing.T) *operationBuilder {
	t.Helper()
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "schema.graphqls", Input: dvt.Schema})
	if err != nil {
		t.Fatal(err)
	}
	return &operationBuilder{t: t, schema: schema, used: map[string]bool{}}
}

// slot is a place in variables for a thing that somebody has.
type slot struct{ key string }

// operation is a document whose variables have slots.
type operation struct {
	field     string // of which it is one variant
	minimal   bool   // the first of its field
	kind      ast.Operation
	document  string
	variables map[string]any
}

// slots say what a String or an ID means: by its owner and name, else by its name alone. What
// is in neither table has no value, and the walk fails until somebody gives it one here.
var slotKeys = map[string]string{ //nolint:gochecknoglobals // a table
	"runId": "run", "stepId": "step", "signalId": "signal", "tokenId": "token", "projectId": "project",
	"environmentId": "environment",
	"tenantId":      "tenant", "planId": "plan", "actor": "principal", "principal": "principal",
	"triggeredBy":  "principal",
	"runRequestId": "request", "requestId": "request",
	"storeEpoch": "epoch", "sha256": "sha", "uri": "uri",
	"Query.node.id": "node", "RunFilter.text": "text", "Query.stepLog.find": "text",
	"CompleteManualStepInput.token": "manualToken",
	"DeadLettersInput.ids":          "letter", "Query.bulk.id": "bulk", "CancelBulkInput.id": "bulk",
	"Subscription.bulkUpdates.id": "bulk", "BulkRunsInput.failedOf": "bulk", "BulkRunsInput.ids": "run",
	"PolicyApprovalInput.projectId": "any", "RerunFromInput.steps": "step", "CreateTokenInput.service": "name",
	"CreateTokenInput.name": "name",
}

// sayings are what a String means that is no name of a thing.
var textValues = map[string]any{ //nolint:gochecknoglobals // a table
	"connect": "5432", "require": "files",
	"reason": "why not", "notes": "done", "note": "look", "evidenceRefs": "https://example.org/e", "destinationDb": "db",
	"schema": "public", "types": "StepFailed",
	"action": "PAUSE", "status": "error", "role": "ADMIN", "outcome": "DENIED", "schemaVersion": "v1.2",
	"planVersion": "1.0", "compression": "gzip",
}

// numbers are by name, else 1.
//
//nolint:gochecknoglobals // a table
var numbers = map[string]any{"first": 5, "last": 5, "sizeBytes": 10, "expectedVersion": 0, "minutes": 5,
	"maxMinutes": 5, "ttlMs": 60000}

// leaf is the value of a scalar or an enum.
func (a *operationBuilder) leafValue(owner, name string, t *ast.Type) any {
	d := a.schema.Types[t.NamedType]
	switch {
	case d.Kind == ast.Enum:
		return d.EnumValues[0].Name
	case d.Name == "Boolean":
		return true
	case d.Name == "Time":
		return "2026-01-02T03:04:05.678Z"
	case owner == "PlanInput" && name == "inline":
		a.used["document"] = true
		return slot{"document"}
	case d.Name == "JSON":
		return map[string]any{"a": 1}
	case d.Name == "Int" || d.Name == "Seq" || d.Name == "Duration" || d.Name == "Float":
		if n, ok := numbers[name]; ok {
			return n
		}
		return 1
	case d.Name == "String" || d.Name == "ID":
		key, ok := slotKeys[owner+"."+name]
		if !ok && (name == "after" || name == "before") {
			key, ok = "cursor:"+owner, true
		}
		if !ok {
			key, ok = slotKeys[name]
		}
		if ok {
			a.used[key] = true
			return slot{key}
		}
		if w, ok := textValues[name]; ok {
			return w
		}
	}
	a.t.Errorf("the walk has no value for %s.%s of type %s: say in slots what it names, or in sayings what it says", owner,
		name, t)
	return nil
}

// input is a field of an input object or an argument.
type input struct {
	name     string
	typ      *ast.Type
	required bool // without a default
}

// variants are values of a type, the plainest first.
func (a *operationBuilder) variants(owner, name string, t *ast.Type) []any {
	if t.Elem != nil {
		var out []any
		for _, v := range a.variants(owner, name, t.Elem) {
			out = append(out, []any{v})
		}
		return out
	}
	d := a.schema.Types[t.NamedType]
	if d.Kind != ast.InputObject {
		return []any{a.leafValue(owner, name, t)}
	}
	var ins []input
	for _, f := range d.Fields {
		ins = append(ins, input{f.Name, f.Type, f.Type.NonNull && f.DefaultValue == nil})
	}
	var out []any
	for _, v := range a.combineInputs(d.Name, ins, d.Directives.ForName("oneOf") != nil) {
		out = append(out, v)
	}
	return out
}

// given are ways to give the inputs: those that must be there, then each other one with them.
func (a *operationBuilder) combineInputs(owner string, ins []input, oneOf bool) []map[string]any {
	base := map[string]any{}
	var out []map[string]any
	with := func(name string, v any) map[string]any {
		one := maps.Clone(base)
		if name == "last" || name == "before" {
			delete(one, "first")
			one["last"] = 5
		}
		one[name] = v
		return one
	}
	if !oneOf {
		for _, in := range ins {
			if in.required || in.name == "first" { // what is not bounded costs too much
				base[in.name] = a.variants(owner, in.name, in.typ)[0]
			}
		}
		out = append(out, base)
	}
	for _, in := range ins {
		vs := a.variants(owner, in.name, in.typ)
		if in.required && !oneOf {
			vs = vs[1:]
		}
		for _, v := range vs {
			out = append(out, with(in.name, v))
		}
	}
	if !oneOf && len(ins) > 0 {
		out = append(out, a.allInputs(owner, ins))
	}
	return out
}

// all are the inputs together that may be given together.
func (a *operationBuilder) allInputs(owner string, ins []input) map[string]any {
	out := map[string]any{}
	for _, in := range ins {
		if in.name != "last" && in.name != "before" {
			out[in.name] = a.variants(owner, in.name, in.typ)[0]
		}
	}
	return out
}

func arguments(f *ast.FieldDefinition) []input {
	var ins []input
	for _, arg := range f.Arguments {
		ins = append(ins, input{arg.Name, arg.Type, arg.Type.NonNull && arg.DefaultValue == nil})
	}
	return ins
}

// document asks for one field with arguments from variables; around stands before and after it.
func (a *operationBuilder) document(kind ast.Operation, f *ast.FieldDefinition, before, after string, vars map[string]any,
	without map[string]bool) string {
	var declared, passed []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		declared = append(declared, fmt.Sprintf("$%s:%s", name, f.Arguments.ForName(name).Type))
		passed = append(passed, fmt.Sprintf("%s:$%s", name, name))
	}
	of := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return "(" + strings.Join(list, ",") + ")"
	}
	return fmt.Sprintf("%s%s{%s%s%s%s%s}", kind, of(declared), before, f.Name, of(passed),
		a.selection(f.Type.Name(), without, 0), after)
}

// Fields that are not to be had in some places.
var (
	inPages   = excludeFields()                                               //nolint:gochecknoglobals // a table
	inStreams = excludeFields("Run.actions", "Step.actions")                  //nolint:gochecknoglobals // a table
	inRows    = excludeFields("Run.actions", "Step.actions", "Run.steps")     //nolint:gochecknoglobals // a table
	inBulks   = map[string]bool{"Bulk.rows": true, "Bulk.applications": true} //nolint:gochecknoglobals // a table
)

// notHad is what is in neither lists nor streams, and more.
func excludeFields(more ...string) map[string]bool {
	out := map[string]bool{}
	for _, f := range append(more, "Run.events", "Run.signals", "Run.approval", "RunError.logLine", "Step.dbtNodes",
		"Step.medianMs", "Run.lastGreen", "Run.forecast", "Run.planDocument") {
		out[f] = true
	}
	return out
}

func excludedFieldsOf(f *ast.FieldDefinition) map[string]bool {
	switch f.Type.Name() {
	case "RunConnection":
		return inPages
	case "RunListUpdate":
		return inRows
	case "RunUpdate":
		return inStreams
	case "BulkConnection":
		return inBulks
	case "BulkUpdate":
		return map[string]bool{"Bulk.rows": true}
	}
	return nil
}

// selection is everything of a type that needs no arguments.
func (a *operationBuilder) selection(name string, without map[string]bool, depth int) string {
	d := a.schema.Types[name]
	var parts []string
	switch d.Kind {
	case ast.Interface:
		for _, p := range a.schema.GetPossibleTypes(d) {
			parts = append(parts, "... on "+p.Name+a.selection(p.Name, without, depth))
		}
	case ast.Object:
		if depth > 9 {
			a.t.Errorf("%s lies too deep", name)
			return ""
		}
		for _, f := range d.Fields {
			if field := d.Name + "." + f.Name; strings.HasPrefix(f.Name, "__") || field == "Step.dbtNodes" || without[field] {
				continue
			}
			if slices.ContainsFunc(arguments(f), func(in input) bool { return in.required }) {
				continue
			}
			parts = append(parts, f.Name+a.selection(f.Type.Name(), without, depth+1))
		}
	default:
		return ""
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// owners say how somebody reaches a thing of their own whose fields take arguments.
var ownerPaths = map[string]string{ //nolint:gochecknoglobals // a table
	"Run": `run(runId:"OWN"){`, "Step": `run(runId:"OWN"){step(stepId:"STEP"){`, "Viewer": `viewer{`, "Bulk": `bulk(id:"` +
		seedScope{mark: "own"}.bulk() + `"){`,
}

// operations are all variants of all fields: of the roots, and of those inside that take arguments.
func (a *operationBuilder) operations(own string) (out []operation, fields int) {
	for _, root := range []*ast.Definition{a.schema.Query, a.schema.Subscription, a.schema.Mutation} {
		kind := ast.Operation(strings.ToLower(root.Name))
		for _, f := range root.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			fields++
			for n, vars := range a.combineInputs(root.Name+"."+f.Name, arguments(f), false) {
				out = append(out, operation{root.Name + "." + f.Name, n == 0, kind, a.document(kind, f, "", "", vars, excludedFieldsOf(f)),
					vars})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.schema.Types)) {
		d := a.schema.Types[name]
		if d.Kind != ast.Object || d == a.schema.Query || d == a.schema.Mutation || d == a.schema.Subscription ||
			strings.HasPrefix(name, "__") {
			continue
		}
		for _, f := range d.Fields {
			if len(f.Arguments) == 0 {
				continue
			}
			reach, ok := ownerPaths[d.Name]
			if !ok {
				a.t.Errorf("the walk does not know how to reach %s.%s: say in owners how", d.Name, f.Name)
				continue
			}
			fields++
			reach = strings.NewReplacer("OWN", own, "STEP", strings.Replace(own, "-run-", "-step-", 1)).Replace(reach)
			for n, vars := range a.combineInputs(d.Name+"."+f.Name, arguments(f), false) {
				out = append(out, operation{d.Name + "." + f.Name, n == 0, ast.Query, a.document(ast.Query, f, reach,
					strings.Repeat("}", strings.Count(reach, "{")), vars, nil), vars})
			}
		}
	}
	return out, fields
}

// filled puts things into slots; it notes what it put where.
func fillSlots(v any, thing func(key string) string, put map[string]string) any {
	switch v := v.(type) {
	case slot:
		s := thing(v.key)
		put[v.key] = s
		if v.key == "document" {
			return json.RawMessage(s)
		}
		return s
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = fillSlots(v[i], thing, put)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out[name] = fillSlots(v[name], thing, put)
		}
		return out
	}
	return v
}
