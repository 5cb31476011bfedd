package delivery

import (
	"context"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// CountReplay counts what a replay would send to the destination of an entry, up to destination.MaxReplayCount. When
// ctx ends it returns what it has counted with More.
type CountReplay func(ctx context.Context, e destination.Entry, r destination.Replay) (destination.ReplayCount, error)

// ReplayPreviewer counts the messages that a replay would send. It is safe for concurrent use.
type ReplayPreviewer struct {
	rights *control.Rights
	reader *DestinationReader
	count  CountReplay
	// CountFor bounds the time of a preview.
	CountFor time.Duration
}

// NewReplayPreviewer makes a ReplayPreviewer.
func NewReplayPreviewer(rights *control.Rights, reader *DestinationReader, count CountReplay) *ReplayPreviewer {
	return &ReplayPreviewer{rights: rights, reader: reader, count: count, CountFor: 10 * time.Second}
}

// PreviewReplay counts what a replay would send. Errors: FORBIDDEN for callers other than operators, BAD_USER_INPUT,
// NOT_FOUND, UNAVAILABLE.
func (s *ReplayPreviewer) PreviewReplay(ctx context.Context, p authz.Principal, name string,
	r destination.Replay) (destination.ReplayCount, error) {
	if err := s.rights.MaySeeInstallation(ctx, p); err != nil {
		return destination.ReplayCount{}, err
	}
	if vs := append(checkName(name), checkReplay(r)...); len(vs) > 0 {
		return destination.ReplayCount{}, control.BadInput(vs)
	}
	d, err := s.reader.get(ctx, name)
	if err != nil {
		return destination.ReplayCount{}, err
	}
	if d.Kind == "" {
		return destination.ReplayCount{}, control.Refuse(run.CodeNotFound,
			"No process has reported the route of this destination yet.")
	}
	if r.Until.IsZero() {
		r.Until = s.rights.Now()
	}
	bounded, cancel := context.WithTimeout(ctx, s.CountFor)
	defer cancel()
	count, err := s.count(bounded, d.Entry, r)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		count.More, err = true, nil
	}
	return count, control.Translate(err)
}

// checkReplay returns what is wrong with a replay.
func checkReplay(r destination.Replay) (vs []plan.Violation) {
	if !r.Until.IsZero() && !r.Since.Before(r.Until) {
		vs = append(vs, plan.Violation{Path: "until", Code: plan.CodeRange, Message: "must be after since"})
	}
	for _, t := range r.Filter.Topics {
		if t != destination.Events && t != destination.Alerts {
			vs = append(vs, plan.Violation{Path: "filter.topics", Code: "INVALID", Message: "must be events or alerts"})
		}
	}
	for _, list := range [][]string{r.Filter.Tenants, r.Filter.Projects, r.Filter.Types, r.Filter.Codes} {
		if len(list) > maxFilterTerms || slices.ContainsFunc(list, func(v string) bool {
			return len(v) > maxFilterTerm || !run.IsText(v)
		}) {
			vs = append(vs, plan.Violation{Path: "filter", Code: plan.CodeRange,
				Message: "must have at most 50 values of at most 128 bytes in each list"})
			break
		}
	}
	return vs
}

// Limits of a filter.
const (
	maxFilterTerms = 50
	maxFilterTerm  = 128
)
