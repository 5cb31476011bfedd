package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/internal/weighed"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// JournalConfig is what a Journal stands on.
type JournalConfig struct {
	Store  store.Store
	Logs   artifact.Logs
	Blobs  artifact.Blobs
	Queues plan.Queues
	Fetch  *Fetcher
	// MaxSteps of a plan that runs here, as for StartRun.
	MaxSteps int
	// WriteBudget is how long the store may take to confirm that a step begins or
	// completed; default 3 s (T120).
	WriteBudget time.Duration
	// Heavy names the bucket that a heavy step of a project takes a token of when it
	// begins (§12.3): one of class heavy, or of type DBT_RUN. It does no I/O; nil: there is no limit.
	Heavy   func(tenantID, projectID string) store.Bucket
	Metrics prometheus.Registerer // none when nil
	Logger  *slog.Logger          // nothing is logged when nil
	Now     func() time.Time      // time.Now when nil
}

// Journal is engine.Journal on the store itself: what control workers use, and
// what a server offers to data workers. It keeps the facts and parsed plans of
// the maxKept runs used last, whose plans are of maxKeptBytes in all.
type Journal struct {
	cfg    JournalConfig
	writes *writes
	runs   *weighed.Cache[*runFacts]
}

const (
	maxKept      = 256
	maxKeptBytes = 128 << 20 // of documents
)

// runFacts never change once they are read.
type runFacts struct {
	run   store.Run
	plan  plan.Plan
	steps map[string]int
}

// NewJournal makes a Journal.
func NewJournal(cfg JournalConfig) *Journal {
	return &Journal{cfg: cfg, writes: newWrites(cfg), runs: weighed.New[*runFacts](maxKept, maxKeptBytes)}
}

var _ engine.Journal = (*Journal)(nil)

// Append implements engine.Journal.
func (j *Journal) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	return j.append(ctx, a, j.cfg.Store.Append)
}

// AppendUnlessPaused implements engine.Journal.
func (j *Journal) AppendUnlessPaused(ctx context.Context, a store.Append) (store.Appended, error) {
	return j.append(ctx, a, func(ctx context.Context, a store.Append) (out store.Appended, err error) {
		err = j.cfg.Store.InRun(ctx, a.RunID, func(tx store.RunTx) error {
			if tx.Head().Gate&run.GatePaused != 0 {
				st, err := tx.State(ctx)
				if err != nil {
					return err
				}
				if slices.ContainsFunc(a.Events, st.HoldsBack) {
					return engine.ErrPaused
				}
			}
			out, err = tx.Append(ctx, a)
			return err
		})
		return out, err
	})
}

func (j *Journal) append(
	ctx context.Context, a store.Append, put func(context.Context, store.Append) (store.Appended, error),
) (out store.Appended, err error) {
	w := write{key: a.RunID, events: len(a.Events), bounded: slices.ContainsFunc(a.Events, func(d run.Draft) bool {
		return d.Type == run.StepCompletedEvent
	})}
	err = j.writes.do(ctx, w, func(ctx context.Context) error {
		for i := range a.Events {
			if err := j.complete(ctx, a.RunID, &a.Events[i]); err != nil {
				return err
			}
		}
		if err := j.completeReused(ctx, a); err != nil {
			return err
		}
		out, err = put(ctx, a)
		return err
	})
	j.writes.compare(ctx, a, out)
	return out, err
}

// complete adds to an event of the interpreter what only the store knows.
func (j *Journal) complete(ctx context.Context, runID string, d *run.Draft) error {
	switch d.Type {
	case run.RunStarted:
		return j.completeStarted(ctx, runID, d)
	case run.RunPaused, run.RunResumed:
		return completeFromReceipt(ctx, j.cfg.Store, runID, d, func(p *run.PausePayload, r run.Receipt) {
			p.PauseRequestedBy, p.Reason = r.Actor, r.Reason
		}, func(p run.PausePayload) string { return p.SignalID })
	case run.RunCancelled:
		return completeFromReceipt(ctx, j.cfg.Store, runID, d, func(p *run.RunCancelledPayload, r run.Receipt) {
			p.Actor, p.Reason = r.Actor, r.Reason
		}, func(p run.RunCancelledPayload) string { return p.SignalID })
	case run.StepCompletedEvent, run.StepFailedEvent:
		return j.completeManual(ctx, runID, d)
	}
	return nil
}

func completeFromReceipt[P any](ctx context.Context, s store.Signals, runID string, d *run.Draft, fill func(*P, run.Receipt), signal func(P) string) error {
	p, err := run.PayloadOf[P](d.Payload)
	if err != nil {
		return err
	}
	r, err := s.Receipt(ctx, runID, signal(p))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	fill(&p, r)
	d.Payload, err = json.Marshal(p)
	return err
}

func (j *Journal) completeStarted(ctx context.Context, runID string, d *run.Draft) error {
	r, err := j.cfg.Store.Get(ctx, runID)
	if err != nil {
		return err
	}
	p, err := run.PayloadOf[run.RunStartedPayload](d.Payload)
	if err != nil {
		return err
	}
	p.PlanRef = run.PlanRef{
		URI: r.PlanRef.URI, SHA256: r.PlanRef.SHA256, SchemaVersion: r.PlanRef.SchemaVersion, PlanID: r.PlanID, PlanVersion: r.PlanVersion,
	}
	p.Policy = r.Policy
	f, err := j.facts(ctx, runID)
	var broken *PlanError
	switch {
	case errors.As(err, &broken): // a run whose plan cannot be had starts without steps, and fails (T144)
		p.Steps = []run.StepOutline{}
	case err != nil:
		return err
	default:
		p.Policy = r.Policy.For(f.plan)
		p.Steps = run.Outline(f.plan, j.cfg.Queues)
	}
	d.Payload, err = json.Marshal(p)
	return err
}

// Begin implements engine.Journal.
func (j *Journal) Begin(ctx context.Context, b store.Begin) (out engine.Begun, err error) {
	w := write{key: fmt.Sprintf("%s/%s/%d", b.RunID, b.StepID, b.LogicalAttempt), events: 1, bounded: true}
	err = j.writes.do(ctx, w, func(ctx context.Context) error {
		out, err = j.begin(ctx, b)
		return err
	})
	return out, err
}

func (j *Journal) begin(ctx context.Context, b store.Begin) (engine.Begun, error) {
	f, err := j.facts(ctx, b.RunID)
	if err != nil {
		return engine.Begun{}, err
	}
	i, ok := f.steps[b.StepID]
	if !ok {
		return engine.Begun{}, fmt.Errorf("%w: step %s of run %s", store.ErrNotFound, b.StepID, b.RunID)
	}
	if s := &f.plan.Steps[i]; j.cfg.Heavy != nil && (s.Dispatch.ResourceClass == plan.Heavy || s.Type == plan.DBTRun) {
		if bucket := j.cfg.Heavy(f.run.TenantID, f.run.ProjectID); bucket.PerMinute >= 0 {
			b.Heavy = &bucket
		}
	}
	begun, err := j.cfg.Store.Begin(ctx, b)
	overlaid := begun.Head.Gate&run.GateOverlaid != 0
	if err == nil && overlaid && begun.Verdict == store.BeginParked {
		begun, err = j.beginOverlaid(ctx, b)
	}
	if err != nil {
		return engine.Begun{}, err
	}
	out := engine.Begun{Begun: begun, Identity: f.run.Identity}
	if begun.Verdict != store.BeginRun {
		return out, nil
	}
	out.Step, out.Params = f.plan.Steps[i], f.run.Params
	if overlaid {
		err = j.overlay(ctx, &out)
	}
	return out, err
}

// Signals implements engine.Journal.
func (j *Journal) Signals(ctx context.Context, runID string, after int64) ([]engine.Signal, error) {
	receipts, err := j.cfg.Store.After(ctx, runID, after)
	if err != nil {
		return nil, err
	}
	out := make([]engine.Signal, len(receipts))
	for i, r := range receipts {
		out[i] = engineSignal(r)
	}
	return out, nil
}

// Skeleton implements engine.Journal. A plan that cannot be had for good is an
// answer, not an error: Failure says why (T144).
func (j *Journal) Skeleton(ctx context.Context, runID string) (engine.Skeleton, error) {
	f, err := j.facts(ctx, runID)
	var broken *PlanError
	if errors.As(err, &broken) {
		r, err := j.cfg.Store.Get(ctx, runID)
		return engine.Skeleton{Identity: r.Identity, Policy: r.Policy, Failure: &run.FailurePayload{
			ErrorCode: string(broken.Code), ErrorMessage: broken.Message, FailureCategory: broken.Category, FailureSource: "planner",
		}}, err
	}
	if err != nil {
		return engine.Skeleton{}, err
	}
	sk := f.plan.Skeleton(j.cfg.Queues)
	b, err := sk.MarshalBinary()
	if err != nil {
		return engine.Skeleton{}, err
	}
	reused, err := j.reused(ctx, f)
	return engine.Skeleton{
		Reused: reused, Identity: f.run.Identity, SHA256: f.run.PlanRef.SHA256, Binary: b, Policy: f.run.Policy.For(f.plan),
	}, err
}

// Compensation implements engine.Journal.
func (j *Journal) Compensation(ctx context.Context, runID, stepID string) (engine.Hook, error) {
	f, err := j.facts(ctx, runID)
	if err != nil {
		return engine.Hook{}, err
	}
	i, ok := f.steps[stepID]
	if !ok || f.plan.Steps[i].Compensation == nil {
		return engine.Hook{}, fmt.Errorf("%w: a compensation of step %s of run %s", store.ErrNotFound, stepID, runID)
	}
	step := f.plan.Steps[i]
	hook := step.Compensation
	step.Type, step.Inputs, step.Timeout = hook.Operation, hook.Input, hook.Timeout
	step.Compensation, step.Retry = nil, plan.Retry{}
	return engine.Hook{Identity: f.run.Identity, Step: step}, nil
}

// Evidence implements engine.Journal. An artifact is kept only where its attempt's
// artifacts belong and only if its bytes are those of its reference.
func (j *Journal) Evidence(ctx context.Context, e engine.Evidence) error {
	f, err := j.facts(ctx, e.RunID)
	if err != nil {
		return err
	}
	if _, ok := f.steps[e.StepID]; !ok {
		return fmt.Errorf("%w: step %s of run %s", store.ErrNotFound, e.StepID, e.RunID)
	}
	id := artifact.AttemptID{TenantID: f.run.TenantID, RunID: e.RunID, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt}
	if len(e.Lines) > 0 {
		lines := make([]artifact.Line, len(e.Lines))
		for i, l := range e.Lines {
			lines[i] = artifact.Line{At: l.At, Stream: l.Stream, EngineAttempt: e.EngineAttempt, Text: l.Text}
		}
		if err := j.cfg.Logs.Append(ctx, id, e.EngineAttempt, e.Lines[0].No, lines); err != nil {
			return err
		}
	}
	if e.Artifact != nil {
		return j.keep(ctx, id, e.EngineAttempt, *e.Artifact)
	}
	return nil
}

// keep stores an artifact's bytes under its reference's uri.
func (j *Journal) keep(ctx context.Context, id artifact.AttemptID, engineAttempt int, a engine.ArtifactBody) error {
	file, err := url.PathUnescape(a.Ref.URI[strings.LastIndexByte(a.Ref.URI, '/')+1:])
	name := artifact.Name(id, engineAttempt, file)
	if err != nil || a.Ref.URI != artifact.URI(name) {
		return fmt.Errorf("%w: an artifact of step %s at %q", run.ErrSchema, id.StepID, a.Ref.URI)
	}
	sum := sha256.Sum256(a.Body)
	if a.Ref.SHA256 != hex.EncodeToString(sum[:]) || a.Ref.SizeBytes != int64(len(a.Body)) {
		return fmt.Errorf("%w: the bytes of %s are others than its reference says", run.ErrSchema, a.Ref.URI)
	}
	_, _, _, err = j.cfg.Blobs.Put(ctx, name, bytes.NewReader(a.Body))
	return err
}

// facts reads the run and its plan, from memory when it was read before.
func (j *Journal) facts(ctx context.Context, runID string) (*runFacts, error) {
	if f, ok := j.runs.Get(runID); ok {
		return f, nil
	}
	r, err := j.cfg.Store.Get(ctx, runID)
	if err != nil {
		return nil, err
	}
	pl, size, err := j.plan(ctx, r)
	if err != nil {
		return nil, err
	}
	f := &runFacts{run: r, plan: pl, steps: make(map[string]int, len(pl.Steps))}
	for i, s := range pl.Steps {
		f.steps[s.StepID] = i
	}
	j.runs.Put(runID, f, size)
	return f, nil
}

// plan reads the plan's body, of size bytes, fetching it once where it was given by reference.
func (j *Journal) plan(ctx context.Context, r store.Run) (pl plan.Plan, size int, err error) {
	doc, err := j.cfg.Store.Plan(ctx, r.PlanRef.SHA256)
	if errors.Is(err, store.ErrNotFound) {
		if doc, err = j.cfg.Fetch.Fetch(ctx, r.PlanRef); err != nil {
			return plan.Plan{}, 0, err
		}
		if err := j.cfg.Store.PutPlan(ctx, r.PlanRef.SHA256, doc); err != nil {
			return plan.Plan{}, 0, err
		}
	} else if err != nil {
		return plan.Plan{}, 0, err
	}
	body, err := r.PlanRef.Open(doc)
	if err != nil {
		return plan.Plan{}, 0, planError(err)
	}
	pl, err = plan.Parse(body, j.cfg.Queues)
	if err != nil {
		return plan.Plan{}, 0, planError(err)
	}
	if err := checkPlace(pl, r.Identity, j.cfg.MaxSteps); err != nil {
		return plan.Plan{}, 0, planError(err)
	}
	if pl.Metadata.PlanID != r.PlanID || pl.Metadata.PlanVersion != r.PlanVersion {
		return plan.Plan{}, 0, &PlanError{Code: run.CodePlanInvalid, Message: "The document is another plan than the reference says.", Category: run.CategoryUser}
	}
	return pl, len(body), nil
}

// Tenant of a run: store.ErrNotFound for an unknown one.
func (j *Journal) Tenant(ctx context.Context, runID string) (string, error) {
	r, err := j.cfg.Store.Get(ctx, runID)
	return r.TenantID, err
}
