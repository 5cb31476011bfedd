package secret

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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
}

// Resolver reads secrets from the providers of an installation. It is safe for concurrent use.
type Resolver struct{ sources map[string]*source }

type source struct {
	Source
	cache *lru.Cache[string, remembered] // nil: none
	calls singleflight.Group
}

// remembered is what a provider answered.
type remembered struct {
	fields map[string]Value
	until  time.Time
}

// NewResolver returns a resolver of the sources. Their names differ.
func NewResolver(sources ...Source) *Resolver {
	r := &Resolver{sources: map[string]*source{}}
	for _, s := range sources {
		own := &source{Source: s}
		if s.CacheTTL > 0 {
			own.cache, _ = lru.New[string, remembered](maxCached) // the size is permitted
		}
		r.sources[s.Name] = own
	}
	return r
}

// Resolve returns the values of refs, in their order. It asks the providers side by side, once for each path. The error
// joins an *Error for each secret that was not read.
func (r *Resolver) Resolve(ctx context.Context, scope Scope, refs []Ref) ([]Value, error) {
	values, errs := make([]Value, len(refs)), make([]error, len(refs))
	var asked sync.WaitGroup
	for i, ref := range refs {
		asked.Go(func() {
			var err error
			if values[i], err = r.one(ctx, scope, ref); err != nil {
				errs[i] = &Error{ref, err}
			}
		})
	}
	asked.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return values, nil
}

func (r *Resolver) one(ctx context.Context, scope Scope, ref Ref) (Value, error) {
	s := r.sources[ref.Provider]
	if s == nil {
		return Value{}, fmt.Errorf("%w: this worker has %s", ErrNotFound, r.known())
	}
	if !ref.HasPath() {
		return Value{}, fmt.Errorf("%w: its key is no path", ErrNotFound)
	}
	key, field := ref.Field()
	path, err := s.path(scope, key)
	if err != nil {
		return Value{}, err
	}
	fields, err := s.read(ctx, path, ref.Version)
	if err != nil {
		return Value{}, err
	}
	value, found := fields[field]
	switch {
	case !found:
		return Value{}, fmt.Errorf("%w: it has no field %q", ErrNotFound, field)
	case value.text == "":
		return Value{}, fmt.Errorf("%w: it is empty", ErrNotFound)
	case len(value.text) > MaxBytes:
		return Value{}, fmt.Errorf("%w: it has more than %d bytes", ErrDenied, MaxBytes)
	case strings.ContainsRune(value.text, 0):
		return Value{}, fmt.Errorf("%w: it contains a zero byte", ErrDenied)
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

// read returns the fields at a path. Callers that ask for one path at the same time share one call, which therefore
// does not end when one of them gives up.
func (s *source) read(ctx context.Context, path, version string) (map[string]Value, error) {
	id := path + "@" + version
	if s.cache != nil {
		if r, ok := s.cache.Get(id); ok && time.Now().Before(r.until) {
			return r.fields, nil
		}
	}
	answer := s.calls.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
		defer cancel()
		fields, err := s.Provider.Read(ctx, path, version)
		if err == nil && s.cache != nil {
			s.cache.Add(id, remembered{fields, time.Now().Add(s.CacheTTL)})
		}
		return fields, err
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case a := <-answer:
		fields, _ := a.Val.(map[string]Value)
		return fields, a.Err
	}
}

// Check returns what each provider says about itself, by name; nil means that it can be used.
func (r *Resolver) Check(ctx context.Context) map[string]error {
	var mu sync.Mutex
	out := map[string]error{}
	var asked sync.WaitGroup
	for name, s := range r.sources {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, s.Timeout)
			defer cancel()
			err := s.Provider.Check(ctx)
			mu.Lock()
			defer mu.Unlock()
			out[name] = err
		})
	}
	asked.Wait()
	return out
}
