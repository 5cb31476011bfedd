package secret

import (
	"context"
	"slices"
)

// Renew reads the secrets of a set past what is remembered, for an attempt whose values were refused. It returns the
// newest values, in the order of refs, and whether one of them differs from the set's. Secrets with a lease keep their
// values and count as remembered, because each lease is new. The returned set has no leases: those of old stay with
// old. The error is that of Resolve.
func (r *Resolver) Renew(
	ctx context.Context, scope Scope, refs []Ref, old *Set,
) (renewed *Set, changed bool, err error) {
	lent := func(ref Ref) bool { return r.sources[ref.Provider] != nil && r.sources[ref.Provider].Leases }
	renewed = &Set{Values: slices.Clone(old.Values), Reads: slices.Clone(old.Reads), resolver: r, scope: scope}
	var asked []Ref
	var at []int
	for i, ref := range refs {
		if lent(ref) {
			renewed.Reads[i].Cached = true
			continue
		}
		asked, at = append(asked, ref), append(at, i)
	}
	fresh, err := r.resolve(ctx, scope, asked, true)
	if err != nil {
		return nil, false, err
	}
	for i, value := range fresh.Values {
		changed = changed || renewed.Values[at[i]] != value
		renewed.Values[at[i]], renewed.Reads[at[i]] = value, fresh.Reads[i]
	}
	return renewed, changed, nil
}
