package control

import (
	"context"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/store"
)

// namedFacts are the facts of an object that name a person. An erasure changes them.
var namedFacts = []string{"requester", "actor", "reason"}

// withoutName returns o as an erasure left it, when the installation proves that an erasure of a person gave it its
// content. Everything else about o is compared as before.
func (s *Audits) withoutName(ctx context.Context, tenantID string, o store.AuditObject) (store.AuditObject, error) {
	found, err := s.opener.Rewritten(ctx, s.store, tenantID, o.Object)
	if err != nil || !slices.ContainsFunc(found, func(r store.Rewrite) bool { return r.Digest == o.Digest }) {
		return o, err
	}
	o.Made = o.Digest
	o.Differences = slices.DeleteFunc(slices.Clone(o.Differences), func(d store.AuditDifference) bool {
		return slices.Contains(namedFacts, d.Fact)
	})
	return o, nil
}

// isRenamed reports whether an erasure gave another name to the object that the row of l made and that no longer exists
// under its name. Only the names of decisions contain a person.
func (s *Audits) isRenamed(ctx context.Context, tenantID string, l store.AuditLink) (bool, error) {
	run, ok := strings.CutPrefix(l.Row.Object, "decision/")
	if !ok {
		return false, nil
	}
	run, _, _ = strings.Cut(run, "/")
	f := store.AuditFilter{TenantID: tenantID, RunID: run, Action: store.ActionEraseNames, Outcome: "ACCEPTED",
		Limit: store.MaxPage}
	for {
		page, err := s.store.AuditLinks(ctx, f)
		if err != nil {
			return false, err
		}
		for _, r := range page {
			f.After = r.No
			object, ok := strings.CutPrefix(r.Row.Object, store.RewrittenObject("decision/"+run+"/"))
			if !ok {
				continue
			}
			found, err := s.opener.Rewritten(ctx, s.store, tenantID, "decision/"+run+"/"+object)
			if err != nil || slices.ContainsFunc(found, func(r store.Rewrite) bool { return r.Made == l.ID }) {
				return err == nil, err
			}
		}
		if len(page) < f.Limit {
			return false, nil
		}
	}
}
