package secret

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/dvt-engine/dvt/plan"
)

// maxCached bounds the secrets that a worker remembers for each provider.
const maxCached = 1000

// Source is a provider with its settings.
type Source struct {
	Name     string
	Provider Provider
	// Path is where a key is read, with the placeholders {tenant}, {environment} and {key}.
	Path string
	// CacheTTL is how long a value is remembered, so for how long a rotated one may be seen; 0 remembers none.
	CacheTTL time.Duration
	Timeout  time.Duration // of one call of the provider
	// Leases says that the provider makes each secret for one reader. It is then a Lender, and nothing is remembered.
	Leases bool
}

// Resolver reads secrets from the providers of an installation. It is safe for concurrent use.
type Resolver struct {
	sources map[string]*source
	sets    sets
	// Observer hears of reads and of leases that end; nil: nobody does. Set it before the first call.
	Observer Observer
	// Held is a directory in which the resolver notes the leases that this process holds, so that another one ends them
	// after a kill; "" notes none. Set it before the first call.
	Held string
}

type source struct {
	Source
	of        *Resolver
	cache     *lru.Cache[string, remembered] // nil: none
	calls     singleflight.Group
	forgotten atomic.Int64 // counts revocations
}

// remembered is what a provider answered.
type remembered struct {
	tenantID string
	answer   Answer
	until    time.Time
}

// NewResolver returns a resolver of the sources. Their names differ.
func NewResolver(sources ...Source) *Resolver {
	r := &Resolver{sources: map[string]*source{}}
	for _, s := range sources {
		own := &source{Source: s, of: r}
		if s.CacheTTL > 0 {
			own.cache, _ = lru.New[string, remembered](maxCached) // the size is permitted
		}
		r.sources[s.Name] = own
	}
	return r
}

// Resolve reads the secrets that refs name. It asks the providers side by side, once for each path. The caller releases
// what it got. The error joins an *Error for each secret that was not read; then nothing is held, and the set has Reads
// only.
func (r *Resolver) Resolve(ctx context.Context, scope Scope, refs []Ref) (*Set, error) {
	return r.resolve(ctx, scope, refs, false)
}

// resolve is Resolve. With fresh, remembered values do not count.
func (r *Resolver) resolve(ctx context.Context, scope Scope, refs []Ref, fresh bool) (*Set, error) {
	set := &Set{Values: make([]Value, len(refs)), Reads: make([]Read, len(refs)), resolver: r, scope: scope}
	reads := map[Ref]*oneRead{} // by provider, path and version
	var asked sync.WaitGroup
	for _, ref := range refs {
		path, _ := ref.Field()
		at := Ref{Provider: ref.Provider, Key: path, Version: ref.Version}
		if reads[at] != nil {
			continue
		}
		read := &oneRead{}
		reads[at] = read
		asked.Go(func() { read.answer, read.cached, read.err = r.read(ctx, scope, at, fresh) })
	}
	asked.Wait()
	for at, read := range reads {
		if read.err == nil && read.answer.Lease != nil {
			set.hold(at.Provider, *read.answer.Lease)
		}
	}
	var errs []error
	for i, ref := range refs {
		path, field := ref.Field()
		read := reads[Ref{Provider: ref.Provider, Key: path, Version: ref.Version}]
		err := read.err
		if err == nil {
			set.Values[i], err = valueOf(read.answer.Fields, field, ref.Destination().Env != "")
		}
		if err != nil {
			errs = append(errs, &Error{ref, err})
		}
		set.Reads[i] = Read{Version: read.answer.Version, Cached: read.cached, Err: err}
	}
	if err := errors.Join(errs...); err != nil {
		return &Set{Reads: set.Reads}, errors.Join(err, set.Release(context.WithoutCancel(ctx)))
	}
	r.keepTrack(set)
	return set, nil
}

// Read is what became of reading one secret.
type Read struct {
	Version string // as Answer.Version
	Cached  bool   // the value was remembered, so that the provider was not asked
	Err     error  // as in *Error; nil when it was read
}

// oneRead is what a provider answered about one path.
type oneRead struct {
	answer Answer
	cached bool
	err    error
}

func (r *Resolver) read(ctx context.Context, scope Scope, at Ref, fresh bool) (answer Answer, cached bool, err error) {
	s := r.sources[at.Provider]
	if s == nil {
		return Answer{}, false, fmt.Errorf("%w: this worker has %s", ErrNotFound, r.known())
	}
	if !at.HasPath() {
		return Answer{}, false, fmt.Errorf("%w: its key is no path", ErrNotFound)
	}
	path, err := s.path(scope, at.Key)
	if err != nil {
		return Answer{}, false, err
	}
	return s.read(ctx, scope.TenantID, path, at.Version, fresh)
}

// valueOf returns the value of a field that a program can get. Only a file can have zero bytes.
func valueOf(fields map[string]Value, field string, variable bool) (Value, error) {
	value, found := fields[field]
	switch {
	case !found:
		return Value{}, fmt.Errorf("%w: it has no field %q", ErrNotFound, field)
	case value.text == "":
		return Value{}, fmt.Errorf("%w: it is empty", ErrNotFound)
	case len(value.text) > MaxBytes:
		return Value{}, fmt.Errorf("%w: it has more than %d bytes", ErrDenied, MaxBytes)
	case variable && strings.ContainsRune(value.text, 0):
		return Value{}, fmt.Errorf("%w: it contains a zero byte, which no variable can have; give it as a file", ErrDenied)
	}
	return value, nil
}

// known says which providers there are.
func (r *Resolver) known() string {
	if len(r.sources) == 0 {
		return "no provider of secrets (setting `secrets`)"
	}
	return "the providers " + strings.Join(slices.Sorted(maps.Keys(r.sources)), ", ")
}

// path returns where a key is read for a scope. An id that is no segment of a path could name another tenant's part.
func (s *source) path(scope Scope, key string) (string, error) {
	for placeholder, id := range map[string]string{"{tenant}": scope.TenantID, "{environment}": scope.EnvironmentID} {
		if strings.Contains(s.Path, placeholder) && !plan.IsSecretSegment(id) {
			return "", fmt.Errorf("%w: the id of the tenant or the environment cannot be part of a path", ErrDenied)
		}
	}
	return strings.NewReplacer("{tenant}", scope.TenantID, "{environment}", scope.EnvironmentID, "{key}", key).
		Replace(s.Path), nil
}

// read returns what the provider has at a path. Callers that ask for one path at the same time share one call, which
// therefore does not end when one of them gives up. A provider of leases is asked for each caller. With fresh, a
// remembered value does not count, nor a call that is under way, because it may have read the old value. cached says
// that the answer was remembered.
func (s *source) read(
	ctx context.Context, tenantID, path, version string, fresh bool,
) (answer Answer, cached bool, err error) {
	if s.Leases {
		ctx, cancel := context.WithTimeout(ctx, s.Timeout)
		defer cancel()
		answer, err = s.ask(ctx, path, version)
		return answer, false, err
	}
	id := path + "@" + version
	call := id
	if fresh {
		call += "@fresh"
	} else if s.cache != nil {
		if r, ok := s.cache.Get(id); ok && time.Now().Before(r.until) {
			s.cached()
			return r.answer, true, nil
		}
	}
	forgotten := s.forgotten.Load()
	asked := s.calls.DoChan(call, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
		defer cancel()
		got, err := s.ask(ctx, path, version)
		// A value that was read before a revocation must not be remembered after it.
		if err == nil && s.cache != nil && s.forgotten.Load() == forgotten {
			s.cache.Add(id, remembered{tenantID, got, time.Now().Add(s.CacheTTL)})
		}
		return got, err
	})
	select {
	case <-ctx.Done():
		return Answer{}, false, context.Cause(ctx)
	case a := <-asked:
		got, _ := a.Val.(Answer)
		return got, false, a.Err
	}
}

// Names returns the names of the providers, sorted.
func (r *Resolver) Names() []string { return slices.Sorted(maps.Keys(r.sources)) }

// Checked is the result of a check.
type Checked struct {
	Err  error // why the provider cannot be used; nil: it can
	Took time.Duration
}

// Check returns what each provider says about itself, by name; nil means that it can be used.
func (r *Resolver) Check(ctx context.Context) map[string]error {
	out := map[string]error{}
	for name, checked := range r.Measure(ctx) {
		out[name] = checked.Err
	}
	return out
}

// Measure asks each provider about itself, side by side, and returns the results by name.
func (r *Resolver) Measure(ctx context.Context) map[string]Checked {
	var mu sync.Mutex
	out := map[string]Checked{}
	var asked sync.WaitGroup
	for name, s := range r.sources {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, s.Timeout)
			defer cancel()
			began := time.Now()
			err := s.Provider.Check(ctx)
			mu.Lock()
			defer mu.Unlock()
			out[name] = Checked{err, time.Since(began)}
		})
	}
	asked.Wait()
	return out
}
