package plan

import (
	"encoding/json"
	"net/http"
	"slices"
)

// SchemaPath is the path below which servers publish the JSON Schemas of plans: SchemaPath + "v1.2.json".
const SchemaPath = "/schemas/plan/"

// schemaObject is a JSON Schema or a part of one.
type schemaObject map[string]any

// JSONSchema returns the JSON Schema (draft 2020-12) of plans of a schema version, for editors: it has a description of
// each field, and it accepts every document that Parse accepts. Parse is stricter where a schema cannot look: it also
// judges the graph, queues, destinations and relations between fields. JSONSchema returns false for a version that is
// not one of SupportedSchemas.
func JSONSchema(version string) ([]byte, bool) {
	if !slices.Contains(SupportedSchemas(), version) {
		return nil, false
	}
	names := []any{version}
	if version == canonicalSchema("v1") {
		names = append(names, "v1")
	}
	id := schemaText("The name of the plan, the same in each version.", schemaObject{"$ref": "#/$defs/id"})
	doc := closed("An execution plan of dvt.", schemaObject{
		"schemaVersion": schemaObject{"enum": names, "description": "The version of the format of this document."},
		"metadata": closed("The identity and the author of the plan.", schemaObject{
			"planId":      id,
			"planVersion": schemaText(`The version of the plan, such as "1.0".`, schemaObject{"$ref": "#/$defs/id"}),
			"createdAt": schemaObject{"type": "string",
				"description": `When the plan was written, such as "2026-11-21T00:00:00Z".`},
			"createdBy":     label("The person or planner that wrote the plan."),
			"schemaVersion": schemaObject{"enum": names, "description": "The same as the document's own schemaVersion."},
			"failurePolicy": closed("What happens when a step has failed and is not retried automatically.", schemaObject{
				"retryWindowSeconds": integer("How long a run waits for a person before it fails; 0 fails it at once.", 0,
					maxRetryWindowSeconds),
				"cancelRunning": boolean("Cancel the cancellable steps in flight when a step fails.")}),
			"deadline":           schemaDeadline(),
			"adapterConstraints": schemaObject{"description": "Ignored by dvt: planners exchange it with each other."},
		}, "planId", "planVersion", "createdAt", "createdBy", "schemaVersion"),
		"scope": closed("The only tenant, project and environment in which the plan may run.", schemaObject{
			"tenantId":      schemaText("The tenant that owns the plan.", schemaObject{"$ref": "#/$defs/id"}),
			"projectId":     schemaText("The project that the plan belongs to.", schemaObject{"$ref": "#/$defs/id"}),
			"environmentId": schemaText("The environment that the plan runs in.", schemaObject{"$ref": "#/$defs/id"}),
			"repoSha":       label("The commit that the plan was made from."),
		}, "tenantId", "projectId", "environmentId", "repoSha"),
		"steps": schemaObject{"type": "array", "minItems": 1, "maxItems": MaxSteps,
			"items":       schemaObject{"$ref": "#/$defs/step"},
			"description": "The steps. Without any dependsOn they run one after the other."},
	}, "schemaVersion", "metadata", "scope", "steps")
	doc["$schema"], doc["$id"] = "https://json-schema.org/draft/2020-12/schema", SchemaPath+version+".json"
	doc["title"], doc["$defs"] = "dvt plan "+version, schemaDefs()
	out, err := json.MarshalIndent(doc, "", "  ")
	return out, err == nil
}

func schemaDeadline() schemaObject {
	return closed("When a run should have ended: people are warned before it is late.", schemaObject{
		"by": schemaText(`The time of the day, such as "06:00".`, schemaObject{"type": "string",
			"pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}),
		"zone": label(`The time zone of by, such as "Europe/Zurich".`),
		"within": schemaText(`The time after the start of the run, such as "2h"; without by.`,
			schemaObject{"$ref": "#/$defs/duration"}),
	})
}

func schemaDefs() schemaObject {
	types := StepTypes()
	operations := slices.DeleteFunc(slices.Clone(types), func(t StepType) bool { return t == Manual })
	step := closed("One step of the plan.", schemaObject{
		"stepId": schemaText("An id that no other step has.", schemaObject{"$ref": "#/$defs/id",
			"not": schemaObject{"const": reservedStepID}}),
		"type":  schemaObject{"enum": types, "description": "The type of the work."},
		"name":  label("The name that people see."),
		"group": label("Steps of a group are shown together."),
		"order": integer("The position among the steps; all steps have one or none has.", 1, MaxSteps),
		"dependsOn": list("The ids of the steps that must succeed first.", schemaObject{"type": "string"},
			schemaObject{"uniqueItems": true}),
		"inputs": schemaObject{"type": "object", "description": "The inputs, by the type of the step."},
		"timeout": schemaText(`The longest duration of one attempt, such as "90s" or "10m". `+
			"A MANUAL step needs one too, but manual.timeout limits its wait.",
			schemaObject{"$ref": "#/$defs/duration"}),
		"retry": closed("Automatic retries within one attempt of a person.", schemaObject{
			"maxAttempts":       integer("Tries, the first included.", 1, maxAttempts),
			"initialBackoffMs":  integer("The wait before the second try, in milliseconds.", minBackoffMS, maxBackoffMS),
			"backoffMultiplier": number("The factor by which each wait is longer than the one before.", 1, maxMultiplier),
			"maxBackoffMs":      integer("The longest wait, in milliseconds.", minBackoffMS, maxBackoffMS),
			"retryableErrors": list("The error classes that are retried; without any: all that may be.",
				schemaObject{"enum": errorClasses()}, schemaObject{"uniqueItems": true}),
		}),
		"dispatch": closed("The workers of the step.", schemaObject{
			"taskQueue": schemaObject{"type": "string",
				"description": "The exact name of a queue; without it: that of the type."},
			"resourceClass": schemaObject{"enum": []string{Light, Heavy},
				"description": "Heavy steps count against their own quota."},
			"cancellable":        boolean("Whether the step may be cancelled while it runs."),
			"allowCancelOnPause": boolean("Whether a pause cancels the step."),
		}),
		"secretRefs": list("The secrets that the step gets, by name. A plan never has their values.",
			closed("The name of a secret.", schemaObject{
				"provider": label("The name of the provider in the settings of the workers."),
				"key": schemaText("The path of the secret, with an optional field behind #, such as db/warehouse#password.",
					schemaObject{"type": "string", "pattern": secretKeyPattern}),
				"version": label("The version of the secret; without it: the newest."),
				"as": schemaObject{"description": "How the program gets it. Default: a file named by the key.", "oneOf": []any{
					closed("A variable of the program.", schemaObject{"env": schemaObject{"type": "string",
						"pattern": secretVariable.String(), "not": schemaObject{"pattern": "^" + reservedVariables}}}, "env"),
					closed("A file in the directory DVT_SECRETS_DIR.", schemaObject{"file": schemaObject{"type": "string",
						"pattern": secretSegment.String()}}, "file")}},
				"unmasked": boolean("Whether a value of fewer than 8 bytes, which output cannot hide, is permitted."),
			}, "provider", "key"), schemaObject{"maxItems": MaxSecretRefs}),
		"sandbox": schemaObject{"$ref": "#/$defs/sandbox"},
		"manual": closed("How a MANUAL step waits for a person.", schemaObject{
			"sod":     boolean("Whether another person than the requester and the approvers must complete it. Default: true."),
			"timeout": schemaText("How long it waits; without it: without a limit.", schemaObject{"$ref": "#/$defs/duration"}),
		}),
		"compensation": closed("Undoes the step when the run fails later.", schemaObject{
			"operation": schemaObject{"enum": operations, "description": "The type of the operation."},
			"input":     schemaObject{"type": "object", "description": "The inputs of the operation, by its type."},
			"timeout":   schemaText("Default: the timeout of the step.", schemaObject{"$ref": "#/$defs/duration"}),
			"sandbox":   schemaObject{"$ref": "#/$defs/sandbox"},
		}, "operation", "input"),
	}, "stepId", "type", "inputs", "timeout")
	withInputs(step, "type", "inputs", types)
	properties, _ := step["properties"].(schemaObject)
	hook, _ := properties["compensation"].(schemaObject)
	withInputs(hook, "operation", "input", operations)
	rules, _ := step["allOf"].([]any)
	step["allOf"] = append(rules, onlyFor("manual", []StepType{Manual}), onlyFor("sandbox", slices.DeleteFunc(StepTypes(),
		func(t StepType) bool { return !t.RunsProgram() })))
	text := schemaObject{"type": "string"}
	return schemaObject{
		"id": schemaObject{"type": "string", "pattern": idPattern.String()},
		"duration": schemaObject{"anyOf": []any{schemaObject{"type": "integer", "minimum": 1,
			"maximum": MaxTimeout.Milliseconds()},
			schemaObject{"type": "string", "pattern": `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)`}}},
		"step": step,
		"sandbox": closed("What the program of the step may use. Without it the rules of the worker apply.", schemaObject{
			"read": list("Files and directories that the program may read.", text,
				schemaObject{"maxItems": MaxSandboxEntries}),
			"write": list("Files and directories that the program may change.", text,
				schemaObject{"maxItems": MaxSandboxEntries}),
			"connect": list(`Permitted destinations, "PORT" or "HOST:PORT".`, text, schemaObject{"maxItems": MaxSandboxEntries}),
			"memory":  integer("Bytes of memory, of all its processes together.", MinSandboxMemory, MaxSandboxMemory),
			"cpu":     number("Cores.", MinSandboxCPU, MaxSandboxCPU),
			"pids":    integer("Processes and threads at once.", 1, MaxSandboxPIDs),
			"disk":    integer("Bytes of one file that the program writes.", MinSandboxDisk, MaxSandboxDisk),
			"require": list("The parts that must be in force.", schemaObject{"enum": SandboxParts()},
				schemaObject{"maxItems": MaxSandboxEntries}),
		}),
		"COMMAND": closed("A program without a shell.", schemaObject{
			"argv": list(`The program and its arguments, such as ["make", "check"].`, text, schemaObject{"minItems": 1}),
			"env":  texts("Variables of the environment, by name."),
			"dir":  schemaObject{"type": "string", "description": "The directory; without it: the run's own workspace."},
		}, "argv"),
		"HTTP_NOTIFY": closed("A call to an address.", schemaObject{
			"url": schemaObject{"type": "string", "description": "The address, http or https."},
			"method": schemaObject{"enum": []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
				http.MethodGet, http.MethodHead}, "description": "Default: POST."},
			"headers": texts("Headers by name."),
			"body":    schemaObject{"description": "A text is sent unchanged, anything else as JSON."},
			"expectStatus": schemaObject{"type": []string{"integer", "array"},
				"description": "The statuses that are a success; without it: any 2xx."},
		}, "url"),
		"DBT": closed("A command of dbt.", schemaObject{
			"projectDir":  schemaObject{"type": "string", "minLength": 1, "description": "The directory of dbt_project.yml."},
			"profilesDir": schemaObject{"type": "string", "description": "The directory of profiles.yml."},
			"select":      schemaObject{"type": "string", "description": "dbt's own selection of nodes."},
			"exclude":     schemaObject{"type": "string", "description": "Nodes that are left out, in dbt's own syntax."},
			"vars":        schemaObject{"type": "object", "description": "Variables of dbt."},
			"target":      schemaObject{"type": "string", "description": "A target of the profile."},
			"threads":     integer("Default: that of the profile.", 1, 256),
			"fullRefresh": boolean("Build incremental models from the beginning."),
			"state": closed("Run only what was modified since an earlier run, and defer the rest to it.", schemaObject{
				"against": schemaObject{"enum": []StateBase{LastGreen},
					"description": "The newest completed run of the same plan and environment."},
				"otherwise": schemaObject{"enum": []StateOtherwise{RefuseWithoutState, FullWithoutState},
					"description": "Without such a run: fail, or run in full. Default: REFUSE."},
			}, "against"),
		}, "projectDir"),
		"SLEEP": closed("A wait.", schemaObject{"ms": integer("Milliseconds.", 0, int(MaxTimeout.Milliseconds()))}, "ms"),
		"MANUAL": closed("A step that a person completes.", schemaObject{
			"instructions": schemaObject{"type": "string", "description": "What the person should do."},
			"evidence":     list("The evidence that the person must provide.", text, nil),
		}),
		"NOOP": closed("No work.", schemaObject{}),
	}
}

// withInputs adds to an object the rule that its inputs are those of its type.
func withInputs(object schemaObject, kind, inputs string, types []StepType) {
	var rules []any
	for _, t := range types {
		def := string(t)
		if t == DBTCompile || t == DBTRun || t == DBTTest {
			def = "DBT"
		}
		rules = append(rules, schemaObject{
			"if":   schemaObject{"properties": schemaObject{kind: schemaObject{"const": t}}, "required": []string{kind}},
			"then": schemaObject{"properties": schemaObject{inputs: schemaObject{"$ref": "#/$defs/" + def}}},
		})
	}
	object["allOf"] = rules
}

// onlyFor returns the rule that only steps of some types have a field.
func onlyFor(field string, types []StepType) schemaObject {
	return schemaObject{"if": schemaObject{"required": []string{field}},
		"then": schemaObject{"properties": schemaObject{"type": schemaObject{"enum": types}}}}
}

// closed returns an object that has no other fields than the given ones.
func closed(description string, fields schemaObject, required ...string) schemaObject {
	out := schemaObject{"type": "object", "description": description, "properties": fields, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func schemaText(description string, of schemaObject) schemaObject {
	of["description"] = description
	return of
}

func label(description string) schemaObject {
	return schemaObject{"type": "string", "minLength": 1, "maxLength": maxText, "description": description}
}

func boolean(description string) schemaObject {
	return schemaObject{"type": "boolean", "description": description}
}

func integer(description string, low, high int) schemaObject {
	return schemaObject{"type": "integer", "minimum": low, "maximum": high, "description": description}
}

func number(description string, low, high float64) schemaObject {
	return schemaObject{"type": "number", "minimum": low, "maximum": high, "description": description}
}

func list(description string, items, more schemaObject) schemaObject {
	out := schemaObject{"type": "array", "items": items, "description": description}
	for name, value := range more {
		out[name] = value
	}
	return out
}

// texts returns an object whose values are strings.
func texts(description string) schemaObject {
	return schemaObject{"type": "object", "additionalProperties": schemaObject{"type": "string"},
		"description": description}
}
