package artifact

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gocloud.dev/gcerrors"
)

// Kind says which objects of a Scope are meant.
type Kind string

// The kinds of stored objects.
const (
	KindArtifacts Kind = "artifacts"
	KindLogs      Kind = "logs"
	// KindArchive are the archived logs of runs. Only those of a whole tenant can be named by a Scope, because the keys of
	// a run contain the time of its end.
	KindArchive Kind = "archive"
)

// Scope names objects of one kind: those of a run, or of a whole tenant when RunID is empty. Without TenantID it names
// nothing, and every call refuses it.
type Scope struct {
	Kind            Kind
	TenantID, RunID string
}

// Removed is what one call removed or measured. More is true when objects of the scope are left.
type Removed struct {
	Objects, Bytes int64
	More           bool
}

// Remover deletes what runs left in the bucket. It decides nothing: callers check that the runs have ended and that
// nobody holds them.
type Remover interface {
	// Remove deletes at most limit objects of a scope. Repeated calls continue until More is false; a call after a crash
	// finds the rest. Objects that are written meanwhile may stay.
	Remove(ctx context.Context, s Scope, limit int) (Removed, error)
	// Measure counts at most limit objects of a scope and changes nothing.
	Measure(ctx context.Context, s Scope, limit int) (Removed, error)
	// RemoveUnnamed deletes at most limit objects among the artifacts of a run whose URIs are not named: records of
	// tries, and uploads whose attempt ended before an event named them. It is called after the run has ended.
	RemoveUnnamed(ctx context.Context, tenantID, runID string, named []string, limit int) (Removed, error)
	// AbortUploads ends at most limit multipart uploads of a tenant that began before a time, and reports how many.
	// Their parts are no objects. It does nothing where the service ends them by itself, and without the right to list
	// them.
	AbortUploads(ctx context.Context, tenantID string, before time.Time, limit int) (int64, error)
	// RemoveArtifact deletes one artifact. An artifact that does not exist is no error.
	RemoveArtifact(ctx context.Context, uri string) error
}

var _ Remover = (*Store)(nil)

// Remove implements Remover.
func (s *Store) Remove(ctx context.Context, scope Scope, limit int) (Removed, error) {
	return s.each(ctx, scope, limit, func(key string) error {
		if err := s.bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return failed("remove", err)
		}
		return nil
	})
}

// Measure implements Remover.
func (s *Store) Measure(ctx context.Context, scope Scope, limit int) (Removed, error) {
	return s.each(ctx, scope, limit, func(string) error { return nil })
}

// Walk calls visit with the key and the stored size of each object of a scope, by key, after the key after, until visit
// returns an error. A key begins with the prefix of its kind and the tenant. A bucket that does not list its keys in
// their order is an error, not a gap.
func (s *Store) Walk(ctx context.Context, scope Scope, after string, visit func(key string, size int64) error) error {
	prefix, err := scope.prefix()
	if err != nil {
		return err
	}
	last := ""
	for o, err := range s.bucket.objects(ctx, prefix, after) {
		if err != nil {
			return err
		}
		if o.Key < last {
			return fmt.Errorf("%w: %q comes behind %q", errUnordered, o.Key, last)
		}
		last = o.Key
		if err := visit(o.Key, o.Size); err != nil {
			return err
		}
	}
	return nil
}

// RemoveArtifact implements Remover.
func (s *Store) RemoveArtifact(ctx context.Context, uri string) error {
	name, ok := nameOf(uri)
	if !ok {
		return ErrNotFound
	}
	if err := s.bucket.Delete(ctx, blobKey(name)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return failed("remove", err)
	}
	return nil
}

// each calls visit for at most limit objects of a scope. visit may delete the object: a page of the list is in memory
// before its first object is given.
func (s *Store) each(ctx context.Context, scope Scope, limit int, visit func(key string) error) (out Removed,
	err error) {
	prefix, err := scope.prefix()
	if err != nil {
		return out, err
	}
	for o, err := range s.bucket.objects(ctx, prefix, "") {
		if err != nil {
			return out, err
		}
		if out.Objects == int64(limit) {
			out.More = true
			break
		}
		if err := visit(o.Key); err != nil {
			return out, err
		}
		out.Objects++
		out.Bytes += o.Size
	}
	return out, nil
}

// prefix returns the prefix of the scope's objects. It ends with a slash, so that tenant a is not a part of tenant ab.
func (s Scope) prefix() (string, error) {
	parts := []string{string(s.Kind), s.TenantID}
	if s.RunID != "" {
		parts = append(parts, s.RunID)
	}
	if s.Kind != KindArtifacts && s.Kind != KindLogs && (s.Kind != KindArchive || s.RunID != "") {
		return "", fmt.Errorf("artifact: %q is not a kind of objects", s.Kind)
	}
	for _, part := range parts {
		if part == "" || part[0] == '.' || strings.ContainsAny(part, "/\\") {
			return "", fmt.Errorf("artifact: %q does not name a tenant or a run", part)
		}
	}
	return strings.Join(parts, "/") + "/", nil
}
