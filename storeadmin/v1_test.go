package storeadmin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin"
)

// seed is the example of a RunStarted in the old specification, unchanged, among other events of version 1.
const seed = `{"eventType":"onRunQueued","eventId":"01234567-89ab-cdef-0123-456789abcde0","runId":"run_2026-02-11_abc123","runSeq":1,"idempotencyKey":"k1","emittedAt":"2026-02-11T10:29:00.000Z","emittedBy":"engine","position":4}
{"eventType":"RunStarted","eventId":"01234567-89ab-cdef-0123-456789abcdef","runId":"run_2026-02-11_abc123","runSeq":2,"idempotencyKey":"d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26","emittedAt":"2026-02-11T10:30:00.000Z","emittedBy":"engine","status":"RUNNING","engineRunRef":"temporal://default/interpreter-workflow/run_2026-02-11_abc123/f47ac10b","engineType":"temporal","planRef":{"uri":"s3://dvt-plans/prod/plan_xyz_v1.2.json","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","schemaVersion":"v1.2","planId":"plan_xyz","planVersion":"1.2"},"context":{"tenantId":"tenant_acme","projectId":"proj_marketing","environmentId":"prod","triggeredBy":"user_jane","triggerSource":"manual"},"startedAt":"2026-02-11T10:30:00.000Z"}
{"eventType":"StepStarted","eventId":"01234567-89AB-CDEF-0123-456789ABCDE1","runId":"run_2026-02-11_abc123","runSeq":3,"idempotencyKey":"k3","tenantId":"tenant_acme","stepId":"s1","logicalAttemptId":"1","engineAttemptId":"2","emittedAt":"2026-02-11T10:30:05.000Z","occurredAt":"2026-02-11T10:30:01.000Z"}
{"eventType":"QuantumStep","eventId":"01234567-89ab-cdef-0123-456789abcde2","runId":"run_2026-02-11_abc123","runSeq":4,"idempotencyKey":"k4","emittedAt":"2026-02-11T10:30:06.000Z","payload":{ "x" : 1 }}
{"eventType":"StepCompleted","runId":"run_2026-02-11_abc123","runSeq":7,"idempotencyKey":"k7","stepId":"s1","logicalAttemptId":1,"engineAttemptId":2,"emittedAt":"2026-02-11T10:30:09.000Z","persistedAt":"2026-02-11T10:30:10.000Z","payload":{"result":{"rows":5}}}
`

const seedRun = "run_2026-02-11_abc123"

// contract: T147, T181
func TestImport_ReadsTheFormsOfVersion1(t *testing.T) {
	onEach(t, func(d *db) {
		out := d.load(seed)
		if out.Runs != 1 || out.Events != 5 {
			d.Fatalf("imported %+v, want 1 run with 5 events", out)
		}
		r, err := d.Get(d.Context(), seedRun)
		must(d.T, err)
		if r.TenantID != "tenant_acme" || r.PlanID != "plan_xyz" || r.PlanVersion != "1.2" || r.TriggeredBy != "user_jane" ||
			r.TriggerSource != storeadmin.TriggerImport {
			d.Errorf("run %+v, want the facts that its RunStarted names", r)
		}
		log := d.log(seedRun)
		at := func(s string) time.Time {
			t, err := time.Parse(time.RFC3339, s)
			must(d.T, err)
			return t
		}
		type row struct {
			Seq                    run.Seq
			Type                   run.EventType
			Key                    run.Key
			EventID                string
			LA, EA                 int
			EmittedAt, PersistedAt time.Time
			Payload                string
		}
		var got []row
		for _, e := range log {
			got = append(got, row{e.Seq, e.Type, e.Key, e.EventID, e.LogicalAttempt, e.EngineAttempt, e.EmittedAt, e.PersistedAt,
				string(e.Payload)})
		}
		got[1].Payload = ""
		equal(d.T, "log", []row{
			{1, "onRunQueued", "k1", "01234567-89ab-cdef-0123-456789abcde0", 1, 1, at("2026-02-11T10:29:00Z"),
				at("2026-02-11T10:29:00Z"), `{"position":4}`},
			{2, "RunStarted", "d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26",
				"01234567-89ab-cdef-0123-456789abcdef", 1, 1, at("2026-02-11T10:30:00Z"), at("2026-02-11T10:30:00Z"), ""},
			{3, "StepStarted", "k3", "01234567-89AB-CDEF-0123-456789ABCDE1", 1, 2, at("2026-02-11T10:30:05Z"),
				at("2026-02-11T10:30:05Z"), `{"sourceOccurredAt":"2026-02-11T10:30:01.000Z"}`},
			{4, "QuantumStep", "k4", "01234567-89ab-cdef-0123-456789abcde2", 1, 1, at("2026-02-11T10:30:06Z"),
				at("2026-02-11T10:30:06Z"), `{ "x" : 1 }`},
			{7, "StepCompleted", "k7", run.Key("k7").EventID(), 1, 2, at("2026-02-11T10:30:09Z"), at("2026-02-11T10:30:10Z"),
				`{"result":{"rows":5}}`},
		}, got)
		s := d.state(seedRun)
		step, ok := s.Step("s1")
		if !ok || step.Status != run.StepSuccess || s.Status != run.Running || s.Seq != 7 || s.TriggeredBy != "user_jane" ||
			s.Engine == nil || s.Engine.Provider != "temporal" || !strings.HasSuffix(s.Engine.WorkflowID, "f47ac10b") {
			d.Errorf("state %+v, want a running run at 7 with the engine and the completed step of its log", s.Header)
		}
		if a := step.Attempts[0]; !a.StartedAt.Equal(at("2026-02-11T10:30:01Z")) || a.DurationMS != 8000 {
			d.Errorf("attempt %+v, want a start and a duration by sourceOccurredAt", a)
		}
		d.clean()

		// The export of a run of version 1 is a file of version 2, which Import accepts too.
		fresh := newSQLite(d.T)
		fresh.load(d.export())
		equal(d.T, "log of the copy", log, fresh.log(seedRun))
		fresh.clean()
	})
}

// contract: A10, W-11
func TestImport_AcceptsUnknownTypesThatAppendRefuses(t *testing.T) {
	onEach(t, func(d *db) {
		d.load(seed)
		_, err := d.Append(d.Context(), store.Append{RunID: seedRun, Events: []run.Draft{{
			Type: "QuantumStep", LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine,
		}}})
		var schema *run.SchemaError
		if !errors.As(err, &schema) || schema.Code() != run.CodeSchemaValidation {
			d.Errorf("append of an unknown type: error %v, want SCHEMA_VALIDATION", err)
		}
		before, after := d.state(seedRun), d.state(seedRun)
		equal(d.T, "state", before, after)
	})
}

// contract: T147
func TestImport_RefusesEventsOfVersion1ThatContradictEachOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"another tenant": {`"tenantId":"tenant_acme","stepId"`, `"tenantId":"other","stepId"`,
			`line 3: tenantId: is "other"; line 2 says "tenant_acme"`},
		"no project": {`"projectId":"proj_marketing",`, ``, `line 1: run.projectId`},
		"attempt is a word": {`"logicalAttemptId":"1"`, `"logicalAttemptId":"first"`,
			`line 3: logicalAttemptId: must be an integer`},
		"time is a word": {`"emittedAt":"2026-02-11T10:30:06.000Z"`, `"emittedAt":"yesterday"`,
			`line 4: emittedAt: must be an RFC 3339 time`},
		"malformed eventId":     {`01234567-89ab-cdef-0123-456789abcde2`, `e4`, `line 4: event.eventId`},
		"seq does not increase": {`"runSeq":7`, `"runSeq":4`, `line 5: event.runSeq: 4 does not follow 4`},
		"key twice":             {`"k7"`, `"k4"`, `line 5: event.idempotencyKey: is also the key of an earlier event`},
		"payload is a list":     {`"payload":{ "x" : 1 }`, `"payload":[1],"x":1`, `line 4: payload: must be an object`},
		"no type":               {`"eventType":"QuantumStep",`, ``, `line 4: eventType: is missing`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newSQLite(t)
			_, err := storeadmin.Import(t.Context(), d.Store, from(strings.Replace(seed, c.old, c.new, 1)), false, nil)
			var invalid *storeadmin.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("error %v, want an InvalidError with %q", err, c.want)
			}
			if runs, err := d.AllRuns(t.Context(), "", 1); err != nil || len(runs) > 0 {
				t.Errorf("%d runs were written, want none (error %v)", len(runs), err)
			}
		})
	}
}
