package erasure_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/erasure"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// end ends the runs of a tenant but the first n, seals their logs, and moves one of them into the archive.
func (i *installation) end(mark string, open int) {
	i.Helper()
	ctx, t := i.Context(), i.T
	for k := range 3 {
		id := fmt.Sprintf("run-%s-%d", mark, k)
		if k < open {
			continue
		}
		_, err := i.store.Append(ctx, store.Append{RunID: id, Events: []run.Draft{runtest.Draft(run.RunCancelled, "", 1,
			runtest.M{"reason": "asked by " + personOf(mark)})}})
		check(t, err)
		r := must[store.Run](t)(i.store.Get(ctx, id))
		head := must[store.Heads](t)(i.store.Heads(ctx, []string{id})).ByRun[id]
		row := must[store.AuditRow](t)(store.SealLog(ctx, i.store, r.Identity, store.LogSeal{}, head.LastSeq))
		row.ID = uuid.NewString()
		check(t, i.store.Audit(ctx, row))
	}
	_ = must[int](t)(i.store.LinkAudit(ctx, 100))
	if open > 0 {
		check(t, i.bucket.RemoveArchived(ctx, archiveOf(mark)))
		_, err := i.db.ExecContext(ctx, i.dialect(`DELETE FROM run_archive WHERE tenant_id = $1`), "tenant-"+mark)
		check(t, err)
		return
	}
	id := fmt.Sprintf("run-%s-0", mark)
	a := must[store.ArchivedRun](t)(archive.Write(ctx, i.store, i.bucket, id))
	check(t, i.bucket.RemoveArchived(ctx, archiveOf(mark)))
	_, err := i.db.ExecContext(ctx, i.dialect(`UPDATE run_archive SET location = $2, sha256 = $3, head_seq = $4,
		bytes = $5, emptied_at = NULL, receipts_at = NULL WHERE run_id = $1`), id, a.Location, a.SHA256, int64(a.Head), a.Bytes)
	check(t, err)
}

func (i *installation) dialect(statement string) string {
	if i.pg {
		return statement
	}
	return strings.ReplaceAll(statement, "$", "?")
}

// named returns the traces of a person but in artifacts and step logs, which have the output of programs.
func (i *installation) named(person string) (out []string) {
	for _, trace := range i.scan(person) {
		if !strings.HasPrefix(trace, "file /artifacts/") && !strings.HasPrefix(trace, "file /logs/") {
			out = append(out, trace[:min(len(trace), 400)])
		}
	}
	return out
}

// problems checks the audit of a tenant against its objects and logs, as dvt audit verify does.
func (i *installation) problems(tenant string) (out []string) {
	i.Helper()
	t := i.T
	grants := []authz.Grant{{Role: authz.Admin, ProjectID: "*", EnvironmentID: "*"}}
	sum := sha256.Sum256([]byte("auditor"))
	directory := must[*authz.Directory](t)(authz.NewDirectory([]authz.Account{{ID: "auditor", TenantID: tenant,
		TokenSHA256: hex.EncodeToString(sum[:]), Grants: grants}}, time.Now))
	rights := control.NewRights(control.RightsConfig{Store: i.store, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Authz: must[*authz.Authorizer](t)(authz.New(authz.DefaultPolicy(), directory))})
	s := archive.Reading(i.store, i.bucket)
	audits := control.NewAudits(rights, s, s, i.keys, "", time.Now)
	for after := ""; ; {
		page := must[control.AuditCheckPage](t)(audits.CheckAudit(t.Context(), authz.Principal{ID: "auditor",
			TenantID: tenant, Grants: grants}, after))
		for _, p := range page.Problems { // the rows of fill have no audit; their names change
			out = append(out, strings.ReplaceAll(p, store.Pseudonym(request), personOf(gone)))
		}
		if after = page.Next; after == "" {
			return out
		}
	}
}

// A person has a name in all tables, in an archive and in the engine. After the erasure nothing names the person, also
// not in a restored backup of the day before; the audit and the store verify as before, and another tenant is byte for
// byte the same.
// contract: R497, Z03
func TestSubject_NothingNamesThePersonAnyMore(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.seed(kept)
		i.end(gone, 0)
		i.end(kept, 0)
		tenant, person := "tenant-"+gone, personOf(gone)
		before, problems := i.scan(kept), i.problems(tenant)
		if n := len(i.named(person)); n < 30 {
			t.Fatalf("only %d places name the person before the erasure", n)
		}
		old := i.backup()
		i.ask(request, store.EraseSubject, person)
		c := i.certificate(must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request)))
		for _, trace := range i.named(person) {
			t.Errorf("the person is still named by %s", trace)
		}
		if len(c.Remaining) > 0 || c.Pseudonym != store.Pseudonym(request) || c.Erased["names runs"] != 3 {
			t.Errorf("the certificate counts %v as remaining, %v as erased, and names the pseudonym %q", c.Remaining, c.Erased,
				c.Pseudonym)
		}
		if len(i.scan(c.Pseudonym)) < 20 {
			t.Errorf("only %d places have the pseudonym", len(i.scan(c.Pseudonym)))
		}
		if diff := cmp.Diff(problems, i.problems(tenant)); diff != "" {
			t.Errorf("the check of the audit finds (-before +after):\n%s", diff)
		}
		i.checkChain(tenant)
		i.verifyArchived()
		if diff := cmp.Diff(before, i.scan(kept)); diff != "" {
			t.Errorf("the other tenant changed (-before +after):\n%s", diff)
		}
		if i.engine.runs[tenant+"/run-"+gone+"-1"] || len(i.engine.runs) != 3 {
			t.Errorf("the engine still has %v, want the runs of the other tenant", i.engine.runs)
		}

		out := must[erasure.Replayed](t)(old.runner(nil).Replay(t.Context(), old.store))
		if out.Erasures != 1 || len(out.Certificates) != 1 {
			t.Errorf("the replay gives %+v", out)
		}
		for _, trace := range old.named(person) {
			if !strings.HasPrefix(trace, "file") { // both stores share the bucket
				t.Errorf("after a restore and a replay the person is named by %s", trace)
			}
		}
		old.checkChain(tenant)
	})
}

func (i *installation) verifyArchived() {
	i.Helper()
	v := must[storeadmin.Verified](i.T)(storeadmin.Verify(i.Context(), archive.Reading(i.store, i.bucket),
		storeadmin.VerifyOptions{}, nil))
	if v.Differences > 0 {
		i.Errorf("store verify finds %d differences, the first: %v", v.Differences, v.Found[0])
	}
}

// An erasure that dies after any of its steps continues in another process and ends the same.
func TestSubject_ContinuesAfterADeathAtEachStep(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.end(gone, 0)
		tenant, person := "tenant-"+gone, personOf(gone)
		problems := i.problems(tenant)
		i.ask(request, store.EraseSubject, person)
		seen := map[string]bool{}
		var doc json.RawMessage
		for deaths := 0; doc == nil; deaths++ {
			if deaths > 500 {
				found := must[[]store.Erasure](t)(i.store.Erasures(t.Context(), store.ErasureFilter{IDs: []string{request}}))
				t.Fatalf("the erasure does not end: it is in the phase %s at %q", found[0].Phase, found[0].Position)
			}
			steps := 0
			out, err := i.runner(func(phase, position string) error {
				seen[strings.Fields(phase + " " + position)[0]] = true
				if steps++; steps > 2+deaths%3 && phase != erasure.PhaseAgain && phase != erasure.PhaseTexts {
					return errKilled
				}
				if steps > 300 {
					return errKilled
				}
				return nil
			}).Run(t.Context(), request)
			if err == nil {
				doc = out
			} else if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		for _, phase := range []string{erasure.PhaseKeys, erasure.PhaseRows, erasure.PhaseNames, erasure.PhaseTexts,
			erasure.PhaseLogs, erasure.PhaseOpen, erasure.PhaseAgain, erasure.PhaseCertify} {
			if !seen[phase] {
				t.Errorf("the phase %s was not seen", phase)
			}
		}
		for _, trace := range i.named(person) {
			t.Errorf("the person is still named by %s", trace)
		}
		if diff := cmp.Diff(problems, i.problems(tenant)); diff != "" {
			t.Errorf("the check of the audit finds (-before +after):\n%s", diff)
		}
		if c := i.certificate(doc); c.Erased["names runs"] != 3 || len(c.Remaining) > 0 {
			t.Errorf("the certificate counts %v, and %v remain", c.Erased, c.Remaining)
		}
	})
}

// The log of an open run cannot change. The erasure waits, says for which run, and ends none.
func TestSubject_WaitsForOpenRuns(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.end(gone, 1)
		i.ask(request, store.EraseSubject, personOf(gone))
		_, err := i.runner(nil).Run(t.Context(), request)
		var open *erasure.OpenRunsError
		if !errors.As(err, &open) || !slices.Equal(open.Runs, []string{"run-" + gone + "-0"}) || open.Count != 1 {
			t.Fatalf("the erasure ended with %v, want that it waits for run-%s-0", err, gone)
		}
		found := must[[]store.Erasure](t)(i.store.Erasures(t.Context(), store.ErasureFilter{IDs: []string{request}}))
		if found[0].Phase != erasure.PhaseOpen || found[0].FinishedAt != nil {
			t.Errorf("the erasure is in the phase %s, finished %v; want that it waits", found[0].Phase, found[0].FinishedAt)
		}
		if w, waits := store.OpenWorkOf(found[0]); !waits || !slices.Equal(w.Runs, open.Runs) || w.Count != 1 {
			t.Errorf("the store says that the erasure waits for %v (%v), want %v", w.Runs, waits, open.Runs)
		}
		heads := must[store.Heads](t)(i.store.Heads(t.Context(), []string{"run-" + gone + "-0"}))
		if heads.ByRun["run-"+gone+"-0"].Terminal {
			t.Error("the erasure ended an open run")
		}
		_, err = i.store.Append(t.Context(), store.Append{RunID: "run-" + gone + "-0",
			Events: []run.Draft{runtest.Draft(run.RunCancelled, "", 1)}})
		check(t, err)
		_ = must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request))
		for _, trace := range i.named(personOf(gone)) {
			t.Errorf("the person is still named by %s", trace)
		}
	})
}

// The name of a decision in the audit contains the person, and the chain keeps it. The check of the audit knows the
// decision under its new name, and the certificate counts the row.
func TestSubject_ADecisionKeepsItsRow(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.end(gone, 0)
		id, person := "run-"+gone+"-0", personOf(gone)
		row := store.AuditRowOfDecision(store.AuditRow{ID: uuid.NewString(), TenantID: "tenant-" + gone, Actor: person,
			Action: "APPROVE", Outcome: "ACCEPTED", RunID: id, Credential: "token:t", Address: "192.0.2.7"}, id,
			store.ApprovalDecision{Principal: person, Approved: !i.pg,
				Reason: "she wrote: " + person + " of " + gone, RequestID: "x-" + gone})
		check(t, i.store.Audit(t.Context(), row))
		_ = must[int](t)(i.store.LinkAudit(t.Context(), 100))
		about := func() string {
			return strings.Join(slices.DeleteFunc(i.problems("tenant-"+gone), func(p string) bool {
				return !strings.Contains(p, "decision")
			}), "; ")
		}
		if got := about(); got != "" {
			t.Fatalf("before the erasure the check finds %s", got)
		}
		i.ask(request, store.EraseSubject, person)
		c := i.certificate(must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request)))
		if got := about(); got != "" {
			t.Errorf("after the erasure the check finds %s", got)
		}
		if diff := cmp.Diff(map[string]int64{"audit": 1}, c.Remaining); diff != "" || c.Because["audit"] == "" {
			t.Errorf("what remains (-want +got), because %q:\n%s", c.Because, diff)
		}
	})
}

// A plan that names its author keeps the name, because its address is its content. The certificate counts it, also when
// another tenant has run the same plan.
func TestSubject_PlansThatNameTheirAuthorAreCounted(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.end(gone, 0)
		person := personOf(gone)
		for n, tenants := range [][]string{{gone}, {gone, kept}} {
			for _, mark := range tenants {
				id := runtest.ID
				id.RunID, id.TenantID = fmt.Sprintf("run-%s-by-%d", mark, n), "tenant-"+mark
				_, _, err := i.store.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id, RequestID: "q-by",
					RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, id.RunID),
					PlanRef:    plan.Ref{SHA256: strings.Repeat(fmt.Sprint(n), 64), PlanID: id.PlanID, PlanVersion: id.PlanVersion}},
					Plan: []byte(fmt.Sprintf(`{"n":%d,"author":%q}`, n, person)), Events: []run.Draft{runtest.Start("s1")}})
				check(t, err)
			}
		}
		i.ask(request, store.EraseSubject, person)
		c := i.certificate(must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request)))
		if diff := cmp.Diff(map[string]int64{"plan_body": 2}, c.Remaining); diff != "" || c.Because["plan_body"] == "" {
			t.Errorf("what remains (-want +got), because %q:\n%s", c.Because, diff)
		}
	})
}

// An erasure vouches only for what was recorded: a log or a run that somebody changed before or after it is found.
func TestSubject_DoesNotHideAForgery(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.end(gone, 0)
		tenant, person := "tenant-"+gone, personOf(gone)
		forge := func(statement string) {
			t.Helper()
			if !i.pg {
				_, err := i.db.ExecContext(t.Context(), `DROP TRIGGER IF EXISTS event_no_update`)
				check(t, err)
			} else {
				_, err := i.db.ExecContext(t.Context(), `ALTER TABLE event DISABLE TRIGGER USER`)
				check(t, err)
			}
			_, err := i.db.ExecContext(t.Context(), i.dialect(statement))
			check(t, err)
		}
		forge(`UPDATE event SET emitted_by = 'x' WHERE run_id = 'run-` + gone + `-1' AND run_seq = 1`)
		forge(`UPDATE run SET trigger_source = 'x' WHERE run_id = 'run-` + gone + `-1'`)
		found := func() (n int) {
			for _, p := range i.problems(tenant) {
				if strings.Contains(p, "run-"+gone+"-1") && (strings.Contains(p, "differs")) {
					n++
				}
			}
			return n
		}
		if found() < 2 {
			t.Fatalf("before the erasure the check finds %q, want a forged log and a forged run", i.problems(tenant))
		}
		i.ask(request, store.EraseSubject, person)
		_ = must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request))
		if found() < 2 {
			t.Errorf("after the erasure the check finds %q, want both forgeries", i.problems(tenant))
		}
		forge(`UPDATE event SET emitted_by = 'y' WHERE run_id = 'run-` + gone + `-2' AND run_seq = 1`)
		row := store.AuditRow{ID: uuid.NewString(), TenantID: tenant, Actor: "dvt", Action: store.ActionEraseNames,
			Outcome: "ACCEPTED", RunID: "run-" + gone + "-2", Detail: json.RawMessage(`{"erasure":"e","key":"k1","proof":"x"}`)}
		head := must[store.Heads](t)(i.store.Heads(t.Context(), []string{row.RunID})).ByRun[row.RunID]
		forged := must[store.LogSeal](t)(store.LogHash(t.Context(), i.store, row.RunID, store.LogSeal{}, head.LastSeq))
		row.Object = store.RewrittenObject(store.LogSealObject(row.RunID, head.LastSeq))
		row.Digest = hex.EncodeToString(forged.Hash[:])
		check(t, i.store.Audit(t.Context(), row))
		_ = must[int](t)(i.store.LinkAudit(t.Context(), 100))
		if !slices.ContainsFunc(i.problems(tenant), func(p string) bool {
			return strings.Contains(p, "log of run "+row.RunID)
		}) {
			t.Error("a row without the key of the installation justifies a forged log")
		}
	})
}
