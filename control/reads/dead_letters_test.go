package reads_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// redriver marks dead letters as redriven, or fails as the test sets.
type redriver struct {
	mu    sync.Mutex
	store store.Outbox
	fails map[string]error // by id
	tried []string
}

func (r *redriver) Redrive(ctx context.Context, d reads.DeadLetter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = append(r.tried, d.ID)
	if err := r.fails[d.ID]; err != nil {
		return err
	}
	_, err := r.store.MarkRedriven(ctx, d.ID)
	return err
}

func withRedriver(r *redriver) func(*usecases.Config) {
	return func(c *usecases.Config) { c.Redriver, r.store = r, c.Store }
}

// addDeadLetter adds a dead letter of a run, like a projector, and returns its id.
func (w *world) addDeadLetter(tenant, project, runID string, from, to int) string {
	w.T.Helper()
	db := controltest.Must[*sql.DB](w.T)(sql.Open("sqlite", filepath.Join(w.Dir, "dvt.db")+"?_pragma=busy_timeout(5000)"))
	defer db.Close()
	id := uuid.NewString()
	_, err := db.ExecContext(
		w.T.Context(),
		`INSERT INTO dead_letter (id, tenant_id, project_id, run_id, from_seq, to_seq, attempts, cause, created_at)
		VALUES (?, ?, ?, ?, ?, ?, 10, 'too large', 1)`, id, tenant, project, runID, from, to)
	if err != nil {
		w.T.Fatal(err)
	}
	return id
}

func lettersOf(p reads.DeadLettersPage) []string {
	out := []string{}
	for _, d := range p.Letters {
		out = append(out, d.ID)
	}
	return out
}

func outcomes(out reads.RedrivenDeadLetters) []string {
	var words []string
	for _, r := range out.Results {
		switch {
		case r.Failed != nil:
			words = append(words, string(r.Failed.Code))
		case r.Already:
			words = append(words, "ALREADY")
		case r.Letter.RedrivenAt != nil:
			words = append(words, "REDRIVEN")
		default:
			words = append(words, "OPEN")
		}
	}
	return words
}

func TestDeadLetters_ArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.CreateQueued("one", "s1"), w.CreateQueued("two", "s1")
	var all []string // newest first
	for i := range 5 {
		of := one
		if i == 2 {
			of = two
		}
		all = append([]string{w.addDeadLetter("acme", "shop", of, i, i+1)}, all...)
	}
	controltest.Must[bool](t)(w.Raw.MarkRedriven(t.Context(), all[0]))
	foreign := w.addDeadLetter("globex", "shop", "theirs", 0, 1)
	sre := w.Principal("dev-sre")
	page := func(q reads.DeadLettersQuery) reads.DeadLettersPage {
		t.Helper()
		return controltest.Must[reads.DeadLettersPage](t)(w.DeadLetters(t.Context(), sre, q))
	}
	var walked []string
	q := reads.DeadLettersQuery{First: 2}
	for {
		p := page(q)
		walked = append(walked, lettersOf(p)...)
		if !p.HasNext {
			break
		}
		q.After = walked[len(walked)-1]
	}
	if diff := cmp.Diff(all, walked); diff != "" {
		t.Errorf("pages of two (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all[1:], lettersOf(page(reads.DeadLettersQuery{Open: true}))); diff != "" {
		t.Errorf("open ones (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all[2:3], lettersOf(page(reads.DeadLettersQuery{RunID: two}))); diff != "" {
		t.Errorf("of one run (-want +got):\n%s", diff)
	}
	got := controltest.Must[reads.DeadLetter](t)(w.DeadLetter(t.Context(), sre, all[4]))
	if got.RunID != one || got.From != 0 || got.To != 1 || got.Cause != "too large" || got.Attempts != 10 {
		t.Errorf("the dead letter is %+v, want the one of the first run", got)
	}
	for _, after := range []string{"nonsense", foreign} {
		_, err := w.DeadLetters(t.Context(), sre, reads.DeadLettersQuery{After: after})
		controltest.Refusal(t, err, run.CodeCursorInvalid)
	}
	_, err := w.DeadLetters(t.Context(), sre, reads.DeadLettersQuery{First: 201})
	controltest.Refusal(t, err, run.CodeBadInput)
}

// Another tenant's dead letters are neither listed, named nor redriven, and no answer tells that they exist.
// contract: T101
func TestDeadLetters_OtherTenantsSeeNothing(t *testing.T) {
	t.Parallel()
	r := &redriver{}
	w := newWorld(t, withRedriver(r))
	id := w.CreateQueued("ours", "s1")
	letter := w.addDeadLetter("acme", "shop", id, 0, 1)
	mallory := w.Principal("dev-mallory")
	if p := controltest.Must[reads.DeadLettersPage](t)(w.DeadLetters(t.Context(), mallory, reads.DeadLettersQuery{})); len(
		p.Letters) > 0 {
		t.Errorf("another tenant sees %v, want nothing", p.Letters)
	}
	_, theirs := w.DeadLetters(t.Context(), mallory, reads.DeadLettersQuery{RunID: id})
	_, none := w.DeadLetters(t.Context(), mallory, reads.DeadLettersQuery{RunID: "no-such-run"})
	if a, b := controltest.Refusal(t, theirs, run.CodeNotFound), controltest.Refusal(t, none,
		run.CodeNotFound); a.Error() != b.Error() {
		t.Errorf("a foreign and a missing run are told apart: %q and %q", a, b)
	}
	_, theirs = w.DeadLetter(t.Context(), mallory, letter)
	_, none = w.DeadLetter(t.Context(), mallory, uuid.NewString())
	if a, b := controltest.Refusal(t, theirs, run.CodeNotFound), controltest.Refusal(t, none,
		run.CodeNotFound); a.Error() != b.Error() {
		t.Errorf("a foreign and a missing dead letter are told apart: %q and %q", a, b)
	}
	out := controltest.Must[reads.RedrivenDeadLetters](t)(w.RedriveDeadLetters(t.Context(), mallory,
		reads.RedriveDeadLetters{RequestID: "q1", IDs: []string{letter, uuid.NewString(), ""}}))
	if diff := cmp.Diff([]string{"NOT_FOUND", "NOT_FOUND", "NOT_FOUND"}, outcomes(out)); diff != "" {
		t.Errorf("redriven by another tenant (-want +got):\n%s", diff)
	}
	out = controltest.Must[reads.RedrivenDeadLetters](t)(w.RedriveDeadLetters(t.Context(), mallory,
		reads.RedriveDeadLetters{RequestID: "q2", AllOpen: true}))
	_, err := w.RedriveDeadLetters(t.Context(), mallory, reads.RedriveDeadLetters{RequestID: "q3", RunID: id})
	controltest.Refusal(t, err, run.CodeNotFound)
	if len(out.Results) > 0 || len(r.tried) > 0 {
		t.Errorf("the results are %v and %v was published, want nothing", out.Results, r.tried)
	}
}

func TestDeadLetters_NeedARole(t *testing.T) {
	t.Parallel()
	r := &redriver{}
	w := newWorld(t, withRedriver(r))
	id := w.CreateQueued("run", "s1")
	w.addDeadLetter("acme", "shop", id, 0, 1)
	for _, token := range []string{"dev-viewer", "dev-operator", "dev-engineer", "dev-planner", "dev-system",
		"shop-viewer"} {
		p := w.Principal(token)
		for _, runID := range []string{"", id} {
			_, err := w.DeadLetters(t.Context(), p, reads.DeadLettersQuery{RunID: runID})
			e := controltest.Refusal(t, err, run.CodeForbidden)
			if e.Denial.Action != authz.ReadDeadLetters || !slices.Equal(e.Denial.WhoCould,
				[]string{"dev-admin", "dev-sre"}) {
				t.Errorf("%s: the denial is %+v, want one that names action and principals", token, e.Denial)
			}
			in := reads.RedriveDeadLetters{RequestID: "q1", RunID: runID, AllOpen: runID == ""}
			_, err = w.RedriveDeadLetters(t.Context(), p, in)
			if e := controltest.Refusal(t, err, run.CodeForbidden); e.Denial.Action != authz.Redrive {
				t.Errorf("%s: the denial is %+v, want the action REDRIVE", token, e.Denial)
			}
		}
		for _, action := range []string{"READ_DEAD_LETTERS", "REDRIVE"} {
			if !w.HasAuditRow("acme", token+" "+action+" DENIED FORBIDDEN") {
				t.Errorf("no audit row for %s of %s in %v", action, token, w.AuditRows("acme"))
			}
		}
		if _, err := w.DeadLetter(t.Context(), p, "x"); err == nil {
			t.Errorf("%s may read a dead letter, want a refusal", token)
		}
	}
	_, err := w.DeadLetters(t.Context(), w.Principal("nobody"), reads.DeadLettersQuery{RunID: id})
	controltest.Refusal(t, err, run.CodeNotFound)
	if len(r.tried) > 0 {
		t.Errorf("%v was published, want nothing", r.tried)
	}
	for _, token := range []string{"dev-admin", "dev-sre"} {
		controltest.Must[reads.DeadLettersPage](t)(w.DeadLetters(t.Context(), w.Principal(token),
			reads.DeadLettersQuery{RunID: id}))
		controltest.Must[reads.RedrivenDeadLetters](t)(w.RedriveDeadLetters(t.Context(), w.Principal(token),
			reads.RedriveDeadLetters{RequestID: "q1", AllOpen: true}))
	}
}

// contract: O04
func TestRedriveDeadLetters_EachLetterHasItsResult(t *testing.T) {
	t.Parallel()
	r := &redriver{fails: map[string]error{}}
	w := newWorld(t, withRedriver(r))
	id := w.CreateQueued("run", "s1")
	first, second, refused := w.addDeadLetter("acme", "shop", id, 0, 1), w.addDeadLetter("acme", "shop", id, 1, 2),
		w.addDeadLetter("acme", "shop", id, 2, 3)
	r.fails[refused] = fmt.Errorf("redrive: %w", live.ErrRefused)
	admin := w.Principal("dev-admin")
	redrive := func(in reads.RedriveDeadLetters) reads.RedrivenDeadLetters {
		t.Helper()
		return controltest.Must[reads.RedrivenDeadLetters](t)(w.RedriveDeadLetters(t.Context(), admin, in))
	}
	in := reads.RedriveDeadLetters{RequestID: "q1", IDs: []string{first, refused, first, "no-such", second}}
	if diff := cmp.Diff([]string{"REDRIVEN", "UNAVAILABLE", "ALREADY", "NOT_FOUND", "REDRIVEN"},
		outcomes(redrive(in))); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{first, refused, second}, r.tried); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	rows := func() (n int) {
		for _, row := range w.AuditRows("acme") {
			if strings.HasPrefix(row, "dev-admin REDRIVE ACCEPTED  "+id) {
				n++
			}
		}
		return n
	}
	if rows() != 3 || !w.HasAuditRow(
		"acme", fmt.Sprintf(`dev-admin REDRIVE ACCEPTED  %s {"deadLetterId":%q,"fromSeq":1,"toSeq":2}`, id, second)) {
		t.Errorf("the audit has no rows of the redrive: %v", w.AuditRows("acme"))
	}
	if diff := cmp.Diff([]string{"ALREADY", "UNAVAILABLE", "ALREADY", "NOT_FOUND", "ALREADY"},
		outcomes(redrive(in))); diff != "" {
		t.Errorf("the same request again (-want +got):\n%s", diff)
	}
	if rows() != 3 {
		t.Errorf("the same request again left %d audit rows, want 3", rows())
	}
	delete(r.fails, refused)
	if diff := cmp.Diff(
		[]string{"REDRIVEN"}, outcomes(redrive(reads.RedriveDeadLetters{RequestID: "q2", RunID: id}))); diff != "" {
		t.Errorf("what is open of the run (-want +got):\n%s", diff)
	}
	if out := redrive(reads.RedriveDeadLetters{RequestID: "q3", AllOpen: true}); len(out.Results) > 0 || out.More {
		t.Errorf("with nothing open the result is %+v, want none", out)
	}
}

// A bus that is down is not called for each dead letter. The audit rows are written first.
func TestRedriveDeadLetters_StopsAtABusThatIsDown(t *testing.T) {
	t.Parallel()
	r := &redriver{fails: map[string]error{}}
	w := newWorld(t, withRedriver(r))
	id := w.CreateQueued("run", "s1")
	var letters []string
	for i := range 4 {
		letters = append(letters, w.addDeadLetter("acme", "shop", id, i, i+1))
	}
	r.fails[letters[1]] = errors.New("dial tcp 10.0.0.7:6379: connection refused")
	out := controltest.Must[reads.RedrivenDeadLetters](t)(w.RedriveDeadLetters(t.Context(), w.Principal("dev-admin"),
		reads.RedriveDeadLetters{RequestID: "q1", IDs: letters}))
	if diff := cmp.Diff([]string{"REDRIVEN", "UNAVAILABLE", "UNAVAILABLE", "UNAVAILABLE"}, outcomes(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(r.tried) != 2 {
		t.Errorf("%d letters tried on a bus that is down, want 2", len(r.tried))
	}
	for _, res := range out.Results {
		if res.Failed != nil && (res.Failed.RetryAfter == 0 || strings.Contains(res.Failed.Message, "10.0.0.7")) {
			t.Errorf("the failure is %+v, want RetryAfter and no address of the bus", res.Failed)
		}
	}
	w.Raw.Close()
	_, err := w.RedriveDeadLetters(t.Context(), w.Principal("dev-admin"), reads.RedriveDeadLetters{RequestID: "q2",
		IDs: letters})
	controltest.Refusal(t, err, run.CodeStoreUnavailable)
	if len(r.tried) != 2 {
		t.Error("a dead letter was published without an audit row")
	}
}

func TestRedriveDeadLetters_IsBounded(t *testing.T) {
	t.Parallel()
	r := &redriver{}
	w := newWorld(t, withRedriver(r))
	id := w.CreateQueued("run", "s1")
	for i := range reads.MaxRedrive + 1 {
		w.addDeadLetter("acme", "shop", id, i, i+1)
	}
	admin := w.Principal("dev-admin")
	out := controltest.Must[reads.RedrivenDeadLetters](t)(w.RedriveDeadLetters(t.Context(), admin,
		reads.RedriveDeadLetters{RequestID: "q1", AllOpen: true}))
	if len(out.Results) != reads.MaxRedrive || !out.More {
		t.Errorf("there are %d results, more is %t; want MaxRedrive and more", len(out.Results), out.More)
	}
	out = controltest.Must[reads.RedrivenDeadLetters](t)(w.RedriveDeadLetters(t.Context(), admin,
		reads.RedriveDeadLetters{RequestID: "q1", AllOpen: true}))
	if len(out.Results) != 1 || out.More {
		t.Errorf("the second call has %d results, more is %t; want the rest", len(out.Results), out.More)
	}
	for _, in := range []reads.RedriveDeadLetters{
		{AllOpen: true}, {RequestID: "?", AllOpen: true}, {RequestID: "q"}, {RequestID: "q", AllOpen: true, RunID: id},
		{RequestID: "q", IDs: []string{}},
		{RequestID: "q", IDs: make([]string, reads.MaxRedrive+1)}, {RequestID: "q", IDs: []string{"x"}, AllOpen: true},
	} {
		_, err := w.RedriveDeadLetters(t.Context(), admin, in)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
	bare := newWorld(t)
	_, err := bare.RedriveDeadLetters(t.Context(), admin, reads.RedriveDeadLetters{RequestID: "q1", AllOpen: true})
	controltest.Refusal(t, err, run.CodeNotSupported)
}

// With a publishing projector, a redriven dead letter is marked and the bus has the run's state.
// contract: O04
func TestRedriveDeadLetters_TheProjectorPublishesAndMarksThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) {
		c.Redriver = projector.New(c.Store, c.Bus, projector.Config{})
	})
	id := w.CreateRunning("run", "s1")
	letter := w.addDeadLetter("acme", "shop", id, 0, 2)
	sub := w.Bus.Subscribe(id)
	defer sub.Close()
	controltest.Eventually(t, "subscribed", func() bool { return (<-sub.C()).Confirmed })
	out := controltest.Must[reads.RedrivenDeadLetters](t)(w.RedriveDeadLetters(t.Context(), w.Principal("dev-sre"),
		reads.RedriveDeadLetters{RequestID: "q1", IDs: []string{letter}}))
	if diff := cmp.Diff([]string{"REDRIVEN"}, outcomes(out)); diff != "" {
		t.Fatal(diff)
	}
	controltest.Eventually(t, "a message from 0", func() bool {
		d := <-sub.C()
		return d.Message != nil &&
			d.Message.From == 0
	})
}
