package control_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/postgres"
)

// reuse is a command that stores something under the request id of its caller.
type reuse struct {
	first, other func(requestID string) error // two different changes
	then         func(requestID string) error // the change of other, asked for after the first one; nil if it is other
}

func reuses(t *testing.T, w *controltest.World) map[string]reuse {
	ctx, admin := t.Context(), w.Principal("dev-admin")
	quota := func(version int64, starts int) func(string) error {
		return func(id string) error {
			_, err := w.SetQuota(ctx, admin, admission.SetQuota{RequestID: id, ExpectedVersion: version, Reason: "r",
				Document: admission.QuotaDocument{Tenant: admission.QuotaLimits{StartRunPerMinute: &starts}}})
			return err
		}
	}
	keep := func(version int64, days int) func(string) error {
		return func(id string) error {
			_, _, err := w.SetRetention(ctx, admin, retention.SetRetention{RequestID: id, ExpectedVersion: version,
				Reason: "r", Document: retention.Document{Runs: retention.RunDays{ArchiveAfterDays: &days}}})
			return err
		}
	}
	first := w.Document(func(*authz.Document) {})
	policy := func(version int64, change func(*authz.Document)) func(string) error {
		doc := w.Document(change)
		return func(id string) error {
			_, err := w.SetPolicy(ctx, admin, access.SetPolicy{RequestID: id, ExpectedVersion: version, Document: doc,
				Reason: "r"})
			return err
		}
	}
	same := func(d *authz.Document) { *d = first }
	without := controltest.WithoutGrants("dev-viewer")
	runID := w.CreateQueued("r", "s1")
	note := func(body string) func(string) error {
		return func(id string) error {
			_, err := w.AddNote(ctx, admin, runs.NoteRun{RunID: runID, RequestID: id, Body: body})
			return err
		}
	}
	until := w.Clock.Now().Add(time.Hour)
	silence := func(code run.Code) func(string) error {
		return func(id string) error {
			_, err := w.SilenceAlerts(ctx, admin, reads.SilenceAlerts{RequestID: id, Code: code, Until: until, Reason: "r"})
			return err
		}
	}
	return map[string]reuse{
		"SetQuota":      {quota(0, 2), quota(0, 1), quota(1, 1)},
		"SetRetention":  {keep(0, 30), keep(0, 20), keep(1, 20)},
		"SetPolicy":     {policy(0, same), policy(0, without), policy(1, without)},
		"AddNote":       {first: note("late"), other: note("early")},
		"SilenceAlerts": {first: silence(run.CodeTimeout), other: silence(run.CodeRunLate)},
	}
}

// A caller that reuses a request id for another change must not take the receipt of the first one for its effect.
func TestCommands_ARequestIDIsNotReusedForAnotherChange(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *usecases.Config){
		"SQLite":     func(*testing.T, *usecases.Config) {},
		"PostgreSQL": onPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := controltest.New(t, func(c *usecases.Config) {
				open(t, c)
				c.Retention = retention.Installation{Document: retention.DefaultDocument()}
			}, controltest.WithQuotas(controltest.HobbyQuotas()))
			for name, c := range reuses(t, w) {
				id := "reused-" + name
				if err := c.first(id); err != nil {
					t.Fatalf("%s is refused: %v", name, err)
				}
				if err := c.first(id); err != nil {
					t.Errorf("a repetition of %s is refused: %v", name, err)
				}
				controltest.Refusal(t, c.other(id), run.CodeRequestConflict)
				if c.then == nil {
					continue
				}
				controltest.Refusal(t, c.then(id), run.CodeRequestConflict)
				if err := c.then(id + "-2"); err != nil {
					t.Errorf("%s with a new request id is refused: %v", name, err)
				}
				if err := c.first(id); err != nil {
					t.Errorf("a repetition of %s after another change is refused: %v", name, err)
				}
			}
		})
	}
}

// onPostgres puts the use cases on PostgreSQL.
func onPostgres(t *testing.T, c *usecases.Config) {
	t.Helper()
	s, err := postgres.Open(t.Context(), testserver.Postgres(t), postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c.Store = decorate.WithApprovals(store.Store(s))
}
