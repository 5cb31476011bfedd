package artifact

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"gocloud.dev/gcerrors"
)

var (
	// ErrNotFound is returned for objects that do not exist or were removed.
	ErrNotFound = errors.New("artifact: not found")
	// ErrTooLarge is returned for a body above Limits.BlobBytes, and for an artifact of an attempt that has as many or
	// as much as it may have; nothing is stored.
	ErrTooLarge = errors.New("artifact: too large")
	// ErrTorn is returned for a stored object that is shorter than it was, or has other bytes. Repeating the call does not
	// help: somebody must restore the object from a version of the bucket, or let the step run again.
	ErrTorn = errors.New("artifact: the stored object is torn: it is not what was written")
	// ErrUnavailable is returned when the bucket does not answer, is full, or refuses the call. The call may be repeated.
	ErrUnavailable = errors.New("artifact: the bucket cannot be used")
	// ErrNotAllowed is returned for an object outside the buckets that a caller may read.
	ErrNotAllowed = errors.New("artifact: outside the buckets that may be read")
	// ErrCannotSign is returned by Sign for a bucket without signed links, or one whose credentials cannot sign.
	ErrCannotSign = errors.New("artifact: the bucket cannot sign links")
)

// bucketError is an error of a bucket: ErrUnavailable with a text that holds no secret.
type bucketError struct {
	op    string
	cause error
}

// failed returns the error of an operation on the bucket. It is ErrNotFound for an object that does not exist, and the
// context's error when the caller gave up.
func failed(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrTorn), errors.Is(err, ErrNotFound):
		return fmt.Errorf("artifact: %s: %w", op, err)
	case gcerrors.Code(err) == gcerrors.NotFound:
		return ErrNotFound
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("artifact: %s: %w", op, context.Canceled)
	}
	return &bucketError{op, err}
}

func (e *bucketError) Error() string { return "artifact: " + e.op + ": " + describe(e.cause) }

func (e *bucketError) Unwrap() error { return e.cause }

func (e *bucketError) Is(target error) bool { return target == ErrUnavailable }

// query matches the query of an address in an error: that of Azure holds the signature of a shared access token.
var query = regexp.MustCompile(`\?[^\s"']+`)

// withoutQuery returns a text without the queries of the addresses in it.
func withoutQuery(text string) string { return query.ReplaceAllString(text, "") }

// maxReason is the length of the longest reason in an error, in bytes.
const maxReason = 400

// describe returns the reason of an error on one line, without queries of addresses.
func describe(err error) string {
	text := strings.Join(strings.Fields(withoutQuery(err.Error())), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
