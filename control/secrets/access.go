// Package secrets has the use cases about secrets: who read which one, what a step got, and what people ask of workers.
// No value passes through it: workers read secrets themselves.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// AccessStore is the part of the store that an AccessReader needs.
type AccessStore interface {
	SecretReads(ctx context.Context, f store.SecretReadFilter) ([]store.SecretRead, error)
}

// StepReader reads the names of the secrets of steps. *runs.InputReader implements it.
type StepReader interface {
	StepInputs(ctx context.Context, p authz.Principal, runID, stepID string, upTo run.Seq) (*runs.StepInputs, error)
}

// AccessReader says who read which secret. It is safe for concurrent use.
type AccessReader struct {
	rights *control.Rights
	store  AccessStore
	steps  StepReader
}

// NewAccessReader makes an AccessReader.
func NewAccessReader(rights *control.Rights, store AccessStore, steps StepReader) *AccessReader {
	return &AccessReader{rights: rights, store: store, steps: steps}
}

// Access is the record of one read.
type Access = store.SecretRead

// AccessQuery asks for a page of the reads of secrets of the caller's tenant, the newest first.
type AccessQuery struct {
	RunID, StepID, Provider, Key string // "" does not restrict
	From, To                     time.Time
	First                        int
	After                        string // AccessCursor of the last record of the page before
}

// AccessPage is a page of reads.
type AccessPage struct {
	Reads   []Access
	HasNext bool
}

// AccessCursor returns the cursor of a record.
func AccessCursor(a Access) string { return store.SecretReadCursor(a) }

// maxText bounds each text of a query, in bytes.
const maxText = 1200

// SecretAccess reads who read which secret of the tenant. The caller needs READ_AUDIT on the whole tenant. Errors:
// FORBIDDEN, BAD_USER_INPUT, CURSOR_INVALID.
func (s *AccessReader) SecretAccess(ctx context.Context, p authz.Principal, q AccessQuery) (AccessPage, error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return AccessPage{}, err
	}
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadAudit)}); err != nil {
		return AccessPage{}, err
	}
	var vs []plan.Violation
	for _, t := range []struct{ path, text string }{{"runId", q.RunID}, {"stepId", q.StepID}, {"provider", q.Provider},
		{"key", q.Key}} {
		if len(t.text) > maxText || !run.IsText(t.text) {
			vs = append(vs, plan.Violation{Path: "filter." + t.path, Code: plan.CodeRange,
				Message: fmt.Sprintf("must be text of at most %d bytes", maxText)})
		}
	}
	if len(vs) > 0 {
		return AccessPage{}, control.BadInput(vs)
	}
	rows, err := s.store.SecretReads(ctx, store.SecretReadFilter{TenantID: p.TenantID, RunID: q.RunID, StepID: q.StepID,
		Provider: q.Provider, Key: q.Key, From: q.From, To: q.To, Before: q.After, Limit: n + 1})
	if errors.Is(err, store.ErrCursor) {
		return AccessPage{}, control.CursorInvalid()
	}
	if err != nil {
		return AccessPage{}, control.Translate(err)
	}
	return AccessPage{Reads: rows[:min(n, len(rows))], HasNext: len(rows) > n}, nil
}

// StepSecret is a secret that a step names, with what became of it.
type StepSecret struct {
	plan.SecretRef
	As plan.SecretAs
	// Read is the newest read; nil when no attempt has read it.
	Read *Access
}

// Resolved reports whether the newest read got the value.
func (s StepSecret) Resolved() bool { return s.Read != nil && s.Read.Code == "" }

// StepSecrets reads the secrets that a step names, and whether an attempt (0: the latest that read any) got them. The
// caller must have the right to read the run. It returns nil when the plan is not stored yet. Errors: NOT_FOUND,
// BAD_USER_INPUT.
func (s *AccessReader) StepSecrets(ctx context.Context, p authz.Principal, runID, stepID string,
	attempt int) ([]StepSecret, error) {
	if attempt < 0 {
		return nil, control.BadInput([]plan.Violation{{Path: "attempt", Code: plan.CodeRange, Message: "must be 1 or more"}})
	}
	in, err := s.steps.StepInputs(ctx, p, runID, stepID, 1)
	if err != nil || in == nil || len(in.Secrets) == 0 {
		return nil, err
	}
	rows, err := s.store.SecretReads(ctx, store.SecretReadFilter{TenantID: p.TenantID, RunID: runID, StepID: stepID,
		Limit: store.MaxPage})
	if err != nil {
		return nil, control.Translate(err)
	}
	if attempt == 0 && len(rows) > 0 {
		attempt = rows[0].LogicalAttempt
	}
	out := make([]StepSecret, len(in.Secrets))
	for i, ref := range in.Secrets {
		out[i] = StepSecret{SecretRef: ref, As: ref.Destination()}
		at := slices.IndexFunc(rows, func(r Access) bool {
			return r.LogicalAttempt == attempt && r.Provider == ref.Provider && r.Key == ref.Key &&
				r.Version == ref.Version && r.As == out[i].As.String()
		})
		if at >= 0 {
			out[i].Read = &rows[at]
		}
	}
	return out, nil
}
