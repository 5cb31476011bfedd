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

// operationBuilder builds operations for each field of the schema.
type operationBuilder struct {
	t      *testing.T
	schema *ast.Schema
	used   map[string]bool // keys of the slots in the operations
}

func newOperationBuilder(t *testing.T) *operationBuilder {
	t.Helper()
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "schema.graphqls", Input: dvt.Schema})
	if err != nil {
		t.Fatal(err)
	}
	return &operationBuilder{t: t, schema: schema, used: map[string]bool{}}
}

// slot is a placeholder in variables for the id or name of a thing, such as a run.
type slot struct{ key string }

// operation is a document whose variables have slots.
type operation struct {
	field     string // "Type.field"; an operation is one variant of it
	minimal   bool   // the first of its field
	kind      ast.Operation
	document  string
	variables map[string]any
}

// slotKeys maps an input of type String or ID to the kind of thing that it names: by "Owner.name", or else by name. The
// test fails for an input that is neither here nor in textValues.
var slotKeys = map[string]string{ //nolint:gochecknoglobals // a table
	"runId": "run", "stepId": "step", "signalId": "signal", "tokenId": "token", "projectId": "project",
	"environmentId": "environment",
	"tenantId":      "tenant", "planId": "plan", "actor": "principal", "principal": "principal",
	"triggeredBy":  "principal",
	"runRequestId": "request", "requestId": "request",
	"storeEpoch": "epoch", "sha256": "sha", "uri": "uri", "mirrors": "uri",
	"Query.node.id": "node", "RunFilter.text": "text", "Query.stepLog.find": "text",
	"Query.logSearch.find": "text",
	"RunFilter.tag":        "text", "Query.plans.text": "text",
	"Query.bulkRunCounts.ids": "bulk",
	"Query.runTags.runIds":    "run", "Query.compareRuns.a": "run", "Query.compareRuns.b": "run",
	"SaveViewInput.id": "request", "DeleteViewInput.id": "request", "SaveViewInput.name": "name",
	"RetryNodesInput.uniqueIds":     "text",
	"CompleteManualStepInput.token": "manualToken",
	"DeadLettersInput.ids":          "deadLetter", "Query.bulk.id": "bulk", "CancelBulkInput.id": "bulk",
	"Subscription.bulkUpdates.id": "bulk", "BulkRunsInput.failedOf": "bulk", "BulkRunsInput.ids": "run",
	"PolicyApprovalInput.projectId": "any", "RerunFromInput.steps": "step", "CreateTokenInput.service": "name",
	"CreateTokenInput.name": "name",
	"Query.alert.id":        "alert", "AcknowledgeAlertInput.id": "alert", "EndSilenceInput.id": "silence",
	"Query.destination.name": "destination", "Query.deadDeliveries.name": "destination",
	"Query.previewReplay.name": "destination", "TestDestinationInput.name": "destination",
	"SwitchDestinationInput.name": "destination", "ReplayDestinationInput.name": "destination",
	"RedriveDeliveriesInput.name": "destination",
	"RedriveDeliveriesInput.ids":  "deadLetter", "DeliveryFilter.tenants": "tenant",
	"DeliveryFilter.projects": "project",
	"Query.incident.id":       "incident", "Query.incidentAlerts.id": "incident", "IncidentNoteInput.id": "incident",
	"IncidentSeverityInput.id": "incident",
	"LiftHoldInput.id":         "hold", "PlaceHoldInput.subject": "run",
	"DecideErasureInput.id": "request", "RequestErasureInput.subject": "principal",
	"Query.previewErasure.subject": "principal",
}

// textValues has values for inputs of type String that name no thing.
var textValues = map[string]any{ //nolint:gochecknoglobals // a table
	"connect": "5432", "require": "files", "kinds": "custom",
	"tags": "odd", "add": "odd", "remove": "even", "body": "look at this", "query": "status:FAILED",
	"reason": "why not", "notes": "done", "note": "look", "evidenceRefs": "https://example.org/e", "destinationDb": "db",
	"schema": "public", "types": "StepFailed",
	"topics": "events", "codes": "LAG_HIGH",
	"action": "PAUSE", "status": "error", "role": "ADMIN", "outcome": "DENIED", "schemaVersion": "v1.2",
	"planVersion": "1.0", "schemaEvolutionPath": "v1.1 → v1.2", "sourceVersion": "v1.1", "targetVersion": "v1.2",
	"transformScript": "https://example.org/up.py",
	"compression":     "gzip", "code": "TIMEOUT", "account": "steps-1", "worker": "host/7",
	"kind": "custom", "provider": "vault", "key": "db#password",
}

// numbers has values for inputs of number types, by name. All others are 1.
//
//nolint:gochecknoglobals // a table
var numbers = map[string]any{"first": 5, "last": 5, "sizeBytes": 10, "expectedVersion": 0, "minutes": 5,
	"maxMinutes": 5, "ttlMs": 60000}

// leafValue returns the value of a scalar or an enum.
func (a *operationBuilder) leafValue(owner, name string, t *ast.Type) any {
	d := a.schema.Types[t.NamedType]
	switch {
	case d.Kind == ast.Enum:
		return d.EnumValues[0].Name
	case d.Name == "Boolean":
		return true
	case d.Name == "Time":
		return "2026-01-02T03:04:05.678Z"
	case owner == "PlanInput" && name == "inline", owner == "CheckSecretsInput" && name == "plan":
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
	a.t.Errorf("the walk has no value for %s.%s of type %s: add its kind to slotKeys or its value to textValues", owner,
		name, t)
	return nil
}

// input is a field of an input object or an argument.
type input struct {
	name     string
	typ      *ast.Type
	required bool // non-null and without a default
}

// variants returns values of a type. The first one has only the required fields.
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

// combineInputs returns combinations of the inputs: first the required ones alone, then these with each other input,
// then all of them. With oneOf it returns each input alone.
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
			if in.required || in.name == "first" { // a page without first exceeds the complexity limit
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

// allInputs returns all inputs that are permitted together.
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

// document returns an operation for one field whose arguments come from vars. before and after are the text around the
// field, without has the fields to leave out.
func (a *operationBuilder) document(kind ast.Operation, f *ast.FieldDefinition, before, after string,
	vars map[string]any, without map[string]bool) string {
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

// Fields that the API refuses in pages, in streams, in rows of lists and in lists of bulks.
var (
	inPages   = excludeFields()                                               //nolint:gochecknoglobals // a table
	inStreams = excludeFields("Run.actions", "Step.actions")                  //nolint:gochecknoglobals // a table
	inRows    = excludeFields("Run.actions", "Step.actions", "Run.steps")     //nolint:gochecknoglobals // a table
	inBulks   = map[string]bool{"Bulk.rows": true, "Bulk.applications": true} //nolint:gochecknoglobals // a table
)

// excludeFields returns the fields that the API refuses in lists and in streams, and more.
func excludeFields(more ...string) map[string]bool {
	out := map[string]bool{}
	for _, f := range append(more, "Run.events", "Run.signals", "Run.approval", "RunError.logLine", "Step.dbtNodes",
		"Step.nodes", "Step.medianMs", "Run.lastGreen", "Run.forecast", "Run.planDocument") {
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

// selection returns all fields of a type that have no required arguments.
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
			a.t.Errorf("the selection of %s is deeper than 9 levels", name)
			return ""
		}
		for _, f := range d.Fields {
			field := d.Name + "." + f.Name
			if strings.HasPrefix(f.Name, "__") || field == "Step.dbtNodes" || field == "Step.nodes" || without[field] {
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

// ownerPaths has the text before a field with arguments of a type other than a root. OWN and STEP stand for a run and a
// step of the stranger.
var ownerPaths = map[string]string{ //nolint:gochecknoglobals // a table
	"Run": `run(runId:"OWN"){`, "Step": `run(runId:"OWN"){step(stepId:"STEP"){`, "Viewer": `viewer{`, "Bulk": `bulk(id:"` +
		seedScope{mark: "own"}.bulk() + `"){`,
}

// operations returns all variants of all fields: of the root types, and of other types when a field takes arguments.
// own is the id of a run of the stranger.
func (a *operationBuilder) operations(own string) (out []operation, fields int) {
	for _, root := range []*ast.Definition{a.schema.Query, a.schema.Subscription, a.schema.Mutation} {
		kind := ast.Operation(strings.ToLower(root.Name))
		for _, f := range root.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			fields++
			for n, vars := range a.combineInputs(root.Name+"."+f.Name, arguments(f), false) {
				out = append(out, operation{root.Name + "." + f.Name, n == 0, kind, a.document(kind, f, "", "", vars,
					excludedFieldsOf(f)),
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
				a.t.Errorf("the walk has no path to %s.%s: add one to ownerPaths", d.Name, f.Name)
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

// fillSlots returns v with a thing in each slot. It records the things in put, by key.
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
