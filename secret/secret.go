// Package secret reads the secrets that plans name. A value exists in the worker that runs the attempt, from the start
// of the attempt to its end, and nowhere else: no plan, event, log or answer has it.
package secret

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// MaxBytes is the size of the largest value.
const MaxBytes = 16 << 10

// Ref names a secret.
type Ref = plan.SecretRef

// Scope is for whom a secret is read. A provider gives a tenant's environment its own secrets only. RunID is the run
// whose attempt gets the secret, or "".
type Scope struct{ TenantID, EnvironmentID, RunID string }

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

// Answer is what a provider has at a path.
type Answer struct {
	Fields map[string]Value
	// Version names the version that was read, as the system does; "" when it does not say.
	Version string
	// Lease is set when the provider made the secret for this reader and takes it back.
	Lease *Lease
}

// Lease is the right to a secret that ends.
type Lease struct {
	ID   string
	Life time.Duration // from now, unless it is renewed
}

// Provider reads secrets from one system. It is safe for concurrent use. Its errors contain neither values nor answers
// of the system.
type Provider interface {
	// Read returns the secret at a path, which is absolute for the provider; "" is the newest version. Errors:
	// ErrNotFound, ErrDenied; any other error says that the provider gave no usable answer in time, and that a repetition
	// may help.
	Read(ctx context.Context, path, version string) (Answer, error)
	// Check returns an error that says why the provider cannot be used at present.
	Check(ctx context.Context) error
}

// Lender is a provider whose answers may have leases.
type Lender interface {
	// Renew extends a lease and returns its new life.
	Renew(ctx context.Context, leaseID string) (time.Duration, error)
	// Revoke ends a lease. A lease that has ended is no error.
	Revoke(ctx context.Context, leaseID string) error
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
