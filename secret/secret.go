// Package secret reads the secrets that plans name. A value exists in the worker that runs the attempt, from the start
// of the attempt to its end, and nowhere else: no plan, event, log or answer has it.
package secret

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// Limits of secrets.
const (
	MaxBytes = 16 << 10 // of one value
	MaxRefs  = 50       // of one step
)

// Ref names a secret at a provider of the installation.
type Ref struct {
	Provider string // the name of an entry in the file of providers
	// Key is the path of the secret, relative to the part that its tenant and environment may read. A field of a secret
	// with several follows "#", such as db/warehouse#password. The default field is "value".
	Key     string
	Version string // "" is the newest one
}

// String returns provider:key@version.
func (r Ref) String() string {
	version := r.Version
	if version == "" {
		version = "latest"
	}
	return r.Provider + ":" + r.Key + "@" + version
}

// DefaultField is the field of a secret for a key that names none.
const DefaultField = "value"

// Field returns the path and the field that the key names.
func (r Ref) Field() (path, field string) {
	path, field, found := strings.Cut(r.Key, "#")
	if !found {
		field = DefaultField
	}
	return path, field
}

// Scope is for whom a secret is read. A provider gives a tenant's environment its own secrets only.
type Scope struct{ TenantID, EnvironmentID string }

// Value is the value of a secret. It prints as *** wherever something formats, logs or encodes it.
type Value struct{ text string }

const hidden = "***"

// NewValue returns a value.
func NewValue(text string) Value { return Value{text} }

// Reveal returns the text. The caller must neither log nor store it.
func (v Value) Reveal() string { return v.text }

func (v Value) String() string { return hidden }

// GoString hides the value from %#v.
func (v Value) GoString() string { return hidden }

// Format hides the value from every verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue hides the value from logs.
func (v Value) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the value from JSON, YAML and other encodings.
func (v Value) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Provider reads secrets from one system. It is safe for concurrent use. Its errors contain neither values nor answers
// of the system.
type Provider interface {
	// Read returns the fields of the secret at a path, which is absolute for the provider; "" is the newest version.
	// Errors: ErrNotFound, ErrDenied; any other error says that the provider gave no usable answer in time, and that a
	// repetition may help.
	Read(ctx context.Context, path, version string) (map[string]Value, error)
	// Check returns an error that says why the provider cannot be used at present.
	Check(ctx context.Context) error
}

// Errors of providers.
var (
	ErrNotFound = errors.New("secret: there is no such secret, field or version")
	ErrDenied   = errors.New("secret: the provider denies access")
)

// Error is the failure to read one secret. Its text names the secret and never contains a value.
type Error struct {
	Ref Ref
	Err error // ErrNotFound, ErrDenied, or why the provider did not answer
}

func (e *Error) Error() string {
	reason := strings.TrimPrefix(e.Err.Error(), "secret: ")
	return fmt.Sprintf("the secret %q of the provider %q was not read: %s", e.Ref.Key, e.Ref.Provider, reason)
}

func (e *Error) Unwrap() error { return e.Err }

// segment is one part of a path. Neither "." nor ".." is one, so that no key leaves the part of its tenant.
var segment = regexp.MustCompile(`^[A-Za-z0-9_@+-][A-Za-z0-9_.@+-]{0,127}$`)

// CheckKey returns an error if a key is not a path of at most eight segments with an optional field.
func CheckKey(key string) error {
	path, field := Ref{Key: key}.Field()
	parts := strings.Split(path, "/")
	for _, part := range append(parts, field) {
		if !segment.MatchString(part) {
			return errors.New("a key is a path of letters, digits and _ . @ + -, such as db/warehouse#password")
		}
	}
	if len(parts) > 8 {
		return errors.New("a key has at most eight segments")
	}
	return nil
}
