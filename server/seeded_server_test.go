package server_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config/configtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// seededServer is a server in this process with SQLite and a bus, and without an engine.
type seededServer struct {
	t         *testing.T
	url       string
	file      string       // of the database
	routes    http.Handler // of the server
	store     *sqlite.Store
	artifacts *artifact.Store
	log       *lockedBuffer

	clockBehind atomic.Int64 // how far the clock of the store is behind, in nanoseconds

	mu         sync.Mutex
	statements []string // SQL statements of requests
}

type ofRequest struct{}

// seedOptions are the accounts and the data of a seeded server.
type seedOptions struct {
	accounts []authz.Account
	seed     func(*seededServer) // called before the server starts
}

// startSeededServer starts a server until the end of the test. Nothing listens on its address of Temporal.
func startSeededServer(t *testing.T, with seedOptions) *seededServer {
	t.Helper()
	w := &seededServer{t: t, log: &lockedBuffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server logged:\n%s", w.log)
		}
	})
	dir := t.TempDir()
	var err error
	w.file = filepath.Join(dir, "dvt.db")
	w.store, err = sqlite.Open(t.Context(), w.file, sqlite.Options{
		Trace: w.trace, Now: func() time.Time { return time.Now().Add(-time.Duration(w.clockBehind.Load())) },
	})
	must(t, err)
	bus := miniredis.RunT(t)
	cfg, err := configtest.Load(t, false, fmt.Sprintf(
		"listen: 127.0.0.1:0\nstore: sqlite:unused\nredis: redis://%s/0\ntemporal: %s\nduties: [api, project]\nartifacts: "+
			"file://%s?create_dir=true&no_tmp_dir=true\nmanual-keys: [\"k:%s\"]\nticket-keys: [\"%s\"]\n",
		bus.Addr(), testserver.FreeAddress(t), filepath.Join(dir, "artifacts"),
		base64.StdEncoding.EncodeToString(make([]byte, 32)), ticketKey))
	must(t, err)
	cfg.Accounts = with.accounts
	if with.seed != nil {
		with.seed(w)
	}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	frozen, up := time.Now(), make(chan struct{})
	runInBackground(t, func(ctx context.Context) error {
		return server.ServeInside(ctx, cfg, w.store, log, func() time.Time { return frozen },
			func(routes http.Handler, a *artifact.Store, at net.Addr) http.Handler {
				w.artifacts, w.url = a, "http://"+at.String()
				w.routes = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					routes.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), ofRequest{}, true)))
				})
				close(up)
				return w.routes
			})
	})
	select {
	case <-up:
	case <-time.After(time.Minute):
		t.Fatalf("the server did not start: %s", w.log)
	}
	waitUntilReady(t, w.url)
	return w
}

func (i *seededServer) trace(ctx context.Context, statement string) {
	if ctx.Value(ofRequest{}) == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.statements = append(i.statements, strings.Join(strings.Fields(statement), " "))
}

// takeStatements returns the statements of requests since the last call.
func (i *seededServer) takeStatements() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := i.statements
	i.statements = nil
	return out
}

// accountOf returns an account whose token is its id.
func accountOf(tenant, id string, grants ...authz.Grant) authz.Account {
	return authz.Account{ID: id, TenantID: tenant, TokenSHA256: tokenHash(id), Grants: grants}
}

func role(r authz.Role, project, environment string) authz.Grant {
	return authz.Grant{Role: r, ProjectID: project, EnvironmentID: environment}
}

// seedScope is a tenant, project and environment with data of every kind. All names in it begin with mark.
type seedScope struct {
	mark, tenant, project, environment string
	holder                             string        // principal of its tokens; "" means its Admin
	age                                time.Duration // of its data
}

// runKinds are the kinds of runs in a seedScope, one run each.
var runKinds = []string{"running", "failed", "manual", "paused", "completed", "queued", "waiting", "approval",
	"deadLetter"}

func (p seedScope) run(kind string) string       { return p.mark + "-run-" + kind }
func (p seedScope) step(kind string) string      { return p.mark + "-step-" + kind }
func (p seedScope) signal(kind string) string    { return p.mark + "-signal-" + kind }
func (p seedScope) text(what string) string      { return p.mark + " says " + what }
func (p seedScope) principal(name string) string { return p.mark + "-" + name }

// uuid returns a UUID derived from the mark and the kind of thing.
func (p seedScope) uuid(kind string) string {
	sum := sha256.Sum256([]byte(p.mark + kind))
	h := hex.EncodeToString(sum[:])
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32]
}

func (p seedScope) identity(kind string) run.Identity {
	return run.Identity{RunID: p.run(kind), TenantID: p.tenant, ProjectID: p.project, EnvironmentID: p.environment,
		PlanID: p.mark + "-plan", PlanVersion: "1.0"}
}

// plan returns a plan with one MANUAL step and its reference.
func (p seedScope) plan() (plan.Ref, []byte) {
	doc := fmt.Appendf(
		nil, `{"schemaVersion":"v1.2","metadata":{"planId":%q,"planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z","createdBy":%q,"schemaVersion":"v1.2"},
		"scope":{"tenantId":%q,"projectId":%q,"environmentId":%q,"repoSha":"%s"},
		"steps":[{"stepId":%q,"type":"MANUAL","dependsOn":[],"inputs":{"instructions":%q,"evidence":{"a":%q}},"timeout":"1h"}]}`,
		p.mark+"-plan", p.principal("author"), p.tenant, p.project, p.environment, strings.Repeat("0", 40), p.step("manual"),
		p.text("look"), p.text("proof"))
	sum := sha256.Sum256(doc)
	return plan.Ref{URI: "dvt:plan/" + hex.EncodeToString(sum[:]), SHA256: hex.EncodeToString(sum[:]),
		SchemaVersion: "v1.2", PlanID: p.mark + "-plan", PlanVersion: "1.0"}, doc
}

// runEvents returns the log of a run of this kind.
func (p seedScope) runEvents(kind string) []run.Draft {
	step, m := p.step(kind), func(more runtest.M) runtest.M { return more }
	out := []run.Draft{
		runtest.Draft(run.RunApproved, "", 1, m(runtest.M{"actor": p.principal("planner"), "reason": p.text("approved")})),
		runtest.Start(step)}
	begun := runtest.Draft(run.StepStartedEvent, step, 1)
	switch kind {
	case "running":
		out = append(out, begun)
	case "failed", "deadLetter":
		out = append(out, begun, runtest.Draft(run.StepFailedEvent, step, 1,
			m(runtest.M{"errorMessage": p.text("it broke")})))
	case "manual":
		out = append(out, begun, runtest.Draft(run.StepAwaitingManualCompletion, step, 1))
	case "paused":
		out = append(out, runtest.Draft(run.SignalAccepted, p.signal(kind), 1,
			m(runtest.M{"actor": p.principal("ola"), "reason": p.text("lunch")})),
			runtest.Draft(run.RunPaused, p.signal(kind), 1,
				m(runtest.M{"reason": p.text("lunch"), "pauseRequestedBy": p.principal("ola")})))
	case "completed":
		out = append(out, begun, runtest.Draft(run.StepCompletedEvent, step, 1,
			m(runtest.M{"result": runtest.M{"rows": p.text("rows")}})), runtest.Draft(run.RunCompleted, "", 1))
	}
	return out
}

// seed writes a thing of every kind into the store.
func (p seedScope) seed(w *seededServer) {
	t, ctx := w.t, w.t.Context()
	w.clockBehind.Store(int64(p.age))
	defer w.clockBehind.Store(0)
	ref, doc := p.plan()
	must(t, w.store.PutPlan(ctx, ref.SHA256, doc))
	for i, kind := range runKinds {
		id, request := p.identity(kind), p.mark+"-request-"+kind
		r := store.Run{
			Identity: id, RequestID: request, RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID,
				id.PlanVersion, request),
			PlanRef: ref, TriggeredBy: p.principal("ana"), TriggerSource: "api",
			Params: runtest.JSON(runtest.M{"p": p.text("param")}),
		}
		switch approved := runtest.Draft(run.RunApproved, "", 1); kind {
		case "queued":
			p.createRun(w, store.NewRun{Run: r, Events: []run.Draft{approved},
				Enqueue: &store.Enqueue{Terms: store.Unlimited()}})
		case "waiting":
			held := store.Unlimited()
			held.Hold = true
			wait := func(store.Admission) ([]run.Draft, error) {
				return []run.Draft{runtest.Draft(run.RunQueued, "", 1)}, nil
			}
			p.createRun(w, store.NewRun{Run: r, Events: []run.Draft{approved}, Enqueue: &store.Enqueue{Terms: held}, Wait: wait})
		case "approval":
			p.createRun(w, store.NewRun{Run: r, Events: []run.Draft{runtest.Draft(run.RunQueued, "", 1)},
				NeedApproval: &store.NeedApproval{Required: 2, TTL: time.Hour}})
		default:
			evs := runtest.Log(p.runEvents(kind)...)
			for n := range evs {
				evs[n].Identity, evs[n].EventID = id, p.uuid(fmt.Sprint(kind, n))
				evs[n].Key = run.Key(p.mark + fmt.Sprint(kind, n))
			}
			r.CreatedAt = runtest.Epoch.Add(time.Duration(i) * time.Minute)
			must(t, w.store.Import(ctx, store.NewRun{Run: r, Receipts: []run.SignalReceipt{{
				RunID: id.RunID, Signal: run.Signal{ID: p.signal(kind), Type: run.EscalateAlert},
				Payload: runtest.JSON(runtest.M{"note": p.text("alert")}),
				Actor:   p.principal("ola"), Reason: p.text("alert"), No: 1, Application: run.SignalApplied,
				ReceivedAt: runtest.Epoch.Add(time.Hour),
			}}}, evs))
		}
	}
	p.addDeadLetter(w)
	p.addBulk(w)
	p.addAlert(w)
	p.addDestination(w)
	p.addSecretReads(w)
	for _, kind := range []string{"one", "two"} {
		_, _, err := w.store.PutToken(ctx, store.StoredToken{
			ID: p.uuid("token" + kind), TenantID: p.tenant, Name: p.text("token " + kind),
			Principal: cmp.Or(p.holder, p.principal("ana")), SHA256: tokenHash(p.mark + kind),
			Grants: []byte(`[{"role":"VIEWER","project":"` + p.project + `","environment":"*"}]`), CreatedBy: p.principal("ana"),
			ExpiresAt: time.Now().Add(time.Hour),
		}, p.auditRow("CREATE_TOKEN", "token"+kind))
		must(t, err)
	}
	must(t, w.store.Audit(ctx, p.auditRow("PAUSE", "audit1"), p.auditRow("RESUME", "audit2")))
	_, err := w.store.LinkAudit(ctx, store.MaxPage)
	must(t, err)
}

func (p seedScope) auditRow(action, kind string) store.AuditRow {
	return store.AuditRow{
		ID: p.uuid("audit" + kind), TenantID: p.tenant, Actor: p.principal("ola"), Action: action, RunID: p.run("running"),
		SignalID: p.signal("running"),
		Outcome:  "ACCEPTED", Reason: p.text("because"), RequestID: p.mark + "-request-audit",
		Detail: runtest.JSON(runtest.M{"d": p.text("detail")}),
	}
}

func (p seedScope) createRun(w *seededServer, n store.NewRun) {
	w.t.Helper()
	_, created, err := w.store.CreateRun(w.t.Context(), n)
	must(w.t, err)
	if !created {
		w.t.Fatalf("run %s exists", n.Run.RunID)
	}
}

// addDeadLetter makes a message of a run a dead letter.
func (p seedScope) addDeadLetter(w *seededServer) {
	w.t.Helper()
	id, ctx := p.run("deadLetter"), w.t.Context()
	out, err := w.store.Append(
		ctx, store.Append{RunID: id, Events: []run.Draft{runtest.Draft(run.SignalRejected, p.signal("noise"), 1)}})
	must(w.t, err)
	_, err = w.store.RecordRefusal(ctx, id, out.Head.LastSeq, p.text("too large"), time.Hour)
	must(w.t, err)
	added, err := w.store.AddDeadLetter(ctx, id, out.Head.LastSeq, p.text("too large"))
	must(w.t, err)
	if !added {
		w.t.Fatal("the store has not added the dead letter")
	}
}

// addDestination adds a destination of the installation with a message of the tenant that it did not accept.
func (p seedScope) addDestination(w *seededServer) {
	w.t.Helper()
	entry, err := json.Marshal(destination.Entry{Kind: destination.Webhook, Address: "https://" + p.mark + ".example",
		Route: destination.Route{Tenants: []string{p.tenant}}})
	must(w.t, err)
	must(w.t, w.store.ReportDestination(w.t.Context(), store.DestinationReport{Name: p.mark + "-hook", Entry: entry,
		LastError: p.text("no answer")}))
	must(w.t, w.store.BuryDelivery(w.t.Context(), store.DeadDelivery{Destination: p.mark + "-hook",
		MessageID: p.uuid("dead delivery"), TenantID: p.tenant, RunID: p.run("failed"), Error: p.text("no answer"),
		Message: runtest.JSON(runtest.M{"Type": "StepFailed", "Data": p.text("payload")})}, 10))
}

// addSecretReads records two reads of a secret for a step of the tenant.
func (p seedScope) addSecretReads(w *seededServer) {
	w.t.Helper()
	row := store.SecretRead{TenantID: p.tenant, RunID: p.run("failed"), StepID: p.step("failed"), LogicalAttempt: 1,
		EngineAttempt: 1, No: 1, Account: p.mark + "-worker", Worker: p.mark + "-host", Provider: p.mark + "-vault",
		Key: p.mark + "-key", Answered: p.mark + "-7", As: "env:" + p.mark}
	other := row
	other.No = 2
	must(w.t, w.store.PutSecretReads(w.t.Context(), []store.SecretRead{row, other}))
}

// bulk returns the opaque id of the bulk of the holder.
func (p seedScope) bulk() string {
	return base64.RawURLEncoding.EncodeToString([]byte("Bulk:" + p.uuid("bulk")))
}

// addBulk adds a bulk of two runs: one was refused, and the other has no outcome yet.
// addAlert opens an alert about a run, and silences other ones.
func (p seedScope) addAlert(w *seededServer) {
	w.t.Helper()
	_, err := w.store.RaiseAlert(w.t.Context(), store.Alert{
		ID: p.uuid("alert"), TenantID: p.tenant, ProjectID: p.project, RunID: p.run("running"), StepID: p.step("running"),
		Level: store.AlertHigh, Code: run.CodeTimeout, Note: p.text("alert"), Actor: p.principal("ola"),
	})
	must(w.t, err)
	opened, err := w.store.OpenIncidents(w.t.Context(), 1, func(store.AlertState) store.Severity { return store.Sev2 })
	must(w.t, err)
	_, err = w.store.ActOnIncident(w.t.Context(), opened[0].ID, store.IncidentNote{Actor: p.principal("ola"),
		Act: store.IncidentAddNote, Text: p.text("alert")}, p.auditRow("NOTE_INCIDENT", "incident"))
	must(w.t, err)
	_, _, err = w.store.PlaceHold(w.t.Context(), store.Hold{ID: p.uuid("hold"), TenantID: p.tenant, Kind: store.HoldRun,
		Subject: p.run("failed"), Reason: p.text("hold"), PlacedBy: p.principal("ola")}, p.auditRow("PLACE_HOLD", "hold"))
	must(w.t, err)
	_, err = w.store.Silence(w.t.Context(), store.AlertSilence{
		ID: p.uuid("silence"), TenantID: p.tenant, ProjectID: p.project, Code: run.CodePauseDrain,
		Until: time.Now().Add(time.Hour), Reason: p.text("silence"), Actor: p.principal("ola"),
	}, p.auditRow("SILENCE_ALERTS", "silence"))
	must(w.t, err)
}

func (p seedScope) addBulk(w *seededServer) {
	w.t.Helper()
	created, _, err := w.store.PutBulk(w.t.Context(), store.NewBulk{
		Bulk: store.Bulk{
			ID: p.uuid("bulk"), TenantID: p.tenant, Actor: cmp.Or(p.holder, p.principal("ana")),
			RequestID: p.mark + "-request-bulk",
			Reason:    p.text("bulk"),
			Principal: []byte(`{}`), Action: runtest.JSON(runtest.M{"signal": runtest.M{"type": "PAUSE"},
				"payload": runtest.M{"reason": p.text("bulk")}}),
		},
		Runs: []run.Identity{p.identity("failed"), p.identity("running")}, MostOpen: 1, Keep: 1,
		Audit: p.auditRow("SIGNAL_RUNS", "bulk"),
	})
	must(w.t, err)
	leased, err := w.store.LeaseBulks(w.t.Context(), "seed", time.Minute, 9)
	must(w.t, err)
	for _, b := range leased {
		if b.ID == created.ID {
			created = b
		}
	}
	_, err = w.store.SettleBulkRows(w.t.Context(), created, store.BulkSettlement{Ends: []store.BulkEnd{
		{No: 1, Outcome: store.BulkRefused, Code: run.CodeForbidden, Message: p.text("no")},
	}}, time.Minute)
	must(w.t, err)
}

// addLogLines adds log lines of steps. The server must have started, because it opens the artifact store.
func (p seedScope) addLogLines(w *seededServer) {
	w.t.Helper()
	for _, kind := range []string{"running", "failed", "completed"} {
		must(w.t, w.artifacts.Append(w.t.Context(), artifact.AttemptID{TenantID: p.tenant, RunID: p.run(kind),
			StepID: p.step(kind), LogicalAttempt: 1}, 1, 1,
			[]artifact.Line{{No: 1, At: runtest.Epoch, Stream: "stdout", EngineAttempt: 1, Text: p.text("a line")}}))
	}
}

// addPolicy sets a policy and quotas of the tenant that name its people and its project.
func (p seedScope) addPolicy(w *seededServer) {
	w.t.Helper()
	doc := runtest.JSON(authz.Document{
		Grants: []authz.PrincipalGrant{
			{Principal: p.principal("ana"), Role: authz.Admin, ProjectID: "*", EnvironmentID: "*"},
			{Principal: p.principal("ola"), Role: authz.Operator, ProjectID: p.project, EnvironmentID: "*"},
			{Principal: p.principal("eng"), Role: authz.Engineer, ProjectID: p.project, EnvironmentID: "*"},
		},
		BreakGlass: []authz.BreakGlass{{Principal: p.principal("ola"), Role: authz.Admin, MaxMinutes: 60}},
	})
	_, err := w.store.PutPolicy(w.t.Context(), store.StoredPolicy{
		TenantID: p.tenant, Version: 1, Doc: doc, Actor: p.principal("ana"), Reason: p.text("policy"), RequestID: p.mark +
			"-request-policy",
	}, p.auditRow("SET_POLICY", "policy"))
	must(w.t, err)
	limits := runtest.M{"tenant": runtest.M{"maxActive": 7},
		"projects": []runtest.M{{"projectId": p.project, "limits": runtest.M{"startRunPerMinute": 50}, "weight": 3}}}
	_, err = w.store.PutSetting(w.t.Context(), store.StoredSetting{
		Kind: store.SettingQuota, TenantID: p.tenant, Version: 1, Doc: runtest.JSON(limits), Actor: p.principal("ana"),
		Reason: p.text("quota"), RequestID: p.mark + "-request-quota",
	}, p.auditRow("SET_QUOTA", "quota"))
	must(w.t, err)
	_, err = w.store.LinkAudit(w.t.Context(), store.MaxPage)
	must(w.t, err)
}

// accounts returns the accounts of the scope, the Admin first. With everywhere their grants cover all projects.
func (p seedScope) accounts(everywhere bool) []authz.Account {
	project := p.project
	if everywhere {
		project = "*"
	}
	return slices.Clone([]authz.Account{
		accountOf(p.tenant, p.principal("ana"), role(authz.Admin, project, "*")), accountOf(p.tenant, p.principal("ola"),
			role(authz.Operator, project, "*")),
		accountOf(p.tenant, p.principal("eng"), role(authz.Engineer, project, "*")), accountOf(p.tenant, p.principal("sre"),
			role(authz.SRE, project, "*")),
	})
}
