package reads

import (
	"context"
	"slices"
	"strconv"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// ArtifactsQuery asks for the artifacts of a run.
type ArtifactsQuery struct {
	RunID  string
	StepID string   // "" means all
	Kinds  []string // none means all
	First  int
	After  string // cursor of ArtifactsPage
}

// ArtifactsPage is a page of artifacts: those of steps in the order of the plan and of their attempts, then those of
// hooks.
type ArtifactsPage struct {
	TenantID  string
	Artifacts []run.ArtifactRef
	Cursors   []string // one per artifact
	Total     int      // number of artifacts that the filters let through
	HasNext   bool
}

// ListArtifacts lists the artifacts that the log of a run names. It does not read the bucket. Errors: NOT_FOUND,
// CURSOR_INVALID, BAD_USER_INPUT.
func (s *ArtifactReader) ListArtifacts(ctx context.Context, p authz.Principal, q ArtifactsQuery) (ArtifactsPage,
	error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return ArtifactsPage{}, err
	}
	after, err := decodeIndex(q.After)
	if err != nil {
		return ArtifactsPage{}, err
	}
	r, err := s.rights.GetVisible(ctx, p, authz.Read, q.RunID)
	if err != nil {
		return ArtifactsPage{}, err
	}
	l, err := s.store.Load(ctx, q.RunID)
	if err != nil {
		return ArtifactsPage{}, control.Translate(err)
	}
	out := ArtifactsPage{TenantID: r.TenantID}
	for i, ref := range artifactsOf(&l.State, run.MaxRunArtifacts) {
		place, _ := PlaceOf(r.TenantID, q.RunID, ref.URI)
		if q.StepID != "" && place.StepID != q.StepID || len(q.Kinds) > 0 && !slices.ContainsFunc(q.Kinds,
			func(kind string) bool { return sameKind(kind, string(ref.Kind)) }) {
			continue
		}
		out.Total++
		switch {
		case i < after:
		case len(out.Artifacts) == n:
			out.HasNext = true
		default:
			out.Artifacts = append(out.Artifacts, ref)
			out.Cursors = append(out.Cursors, strconv.Itoa(i+1))
		}
	}
	out.Artifacts, err = s.expiry.Effective(ctx, &l.State, out.Artifacts)
	return out, control.Translate(err)
}

// sameKind reports whether two names of kinds mean the same. Earlier versions wrote the artifacts of dbt with shorter
// names.
func sameKind(a, b string) bool {
	older := map[string]string{"manifest": "dbt-manifest", "run_results": "dbt-run-results"}
	for _, kind := range []*string{&a, &b} {
		if now, ok := older[*kind]; ok {
			*kind = now
		}
	}
	return a == b
}
