// Package artifact stores the artifacts of steps and the lines that they print, by attempt. All sizes are bounded. It
// stores lines as they are: callers must remove secrets first.
package artifact

import (
	"context"
	"io"
	"time"
)

// Line is one line of a step's log.
type Line struct {
	No            int64     `json:"no"` // from 1 within the logical attempt
	At            time.Time `json:"at"`
	Stream        string    `json:"stream"` // stdout, stderr, output (both in one pipe) or dvt
	EngineAttempt int       `json:"engineAttempt"`
	Text          string    `json:"text"`
}

// Page is a part of a log, in order.
type Page struct {
	Lines []Line
	// Total is the number of the last line of the log.
	Total int64
	// Missing are the lines dropped from the middle of a log that exceeds its limits. The line Missing.To is a dvt line
	// that reports it. Zero if none were dropped.
	Missing Missing
}

// Missing is an inclusive range of line numbers. After the first drop From does not change, and To grows.
type Missing struct{ From, To int64 }

// Found is the result of a Search.
type Found struct {
	Lines []Line
	Total int64
	// Bytes is the size of the stored lines that were read. Whole means that they are the whole log.
	Bytes int64
	Whole bool
}

// AttemptID names the log of one logical attempt.
type AttemptID struct {
	TenantID, RunID, StepID string
	LogicalAttempt          int
}

// Logs stores step logs. Implementations are safe for concurrent use by several processes that share the bucket, as
// long as only one process writes an attempt at a time. Reading returns ErrTorn for lines whose object is torn, and all
// methods return ErrUnavailable for a bucket that cannot be used.
type Logs interface { //nolint:interfacebloat // one subject: the logs and artifacts of attempts
	// Append adds lines of one engine attempt. from is the number of the first line within that engine attempt, from 1.
	// Lines that are already stored are dropped, so that repeated calls change nothing (contract T229). If the log
	// exceeds its limits, its middle is dropped; the remaining lines keep their numbers.
	Append(ctx context.Context, id AttemptID, engineAttempt int, from int64, lines []Line) error
	// Read returns lines with No >= from, at most limit.
	Read(ctx context.Context, id AttemptID, from int64, limit int) (Page, error)
	// Find returns the numbers of kept lines that contain text, at most limit, and the number of matches.
	Find(ctx context.Context, id AttemptID, text string, limit int) (nos []int64, total int64, err error)
	// Search returns the first kept lines that contain text, at most limit, and the number of matches. It reads at most
	// maxBytes of stored lines.
	Search(ctx context.Context, id AttemptID, text string, limit int, maxBytes int64) (Found, error)
	// ErrorLine returns the number of the line that names the error of an engine attempt; 0 without lines. named is the
	// number that the failure names, among the lines of the engine attempt; the result is then 0 if that line is not
	// stored. If named is 0, ErrorLine applies the rule of internal/errorline to the stored lines.
	ErrorLine(ctx context.Context, id AttemptID, engineAttempt int, named int64) (no int64, err error)
	// Follow wakes the channel when an attempt has new lines. Wake-ups carry no data and may be spurious. It ends with
	// ctx.
	Follow(ctx context.Context, id AttemptID) <-chan struct{}
	// CheckWritable returns an error when nothing can be stored. It writes and deletes a small object, at most once in
	// 15 s while that succeeds.
	CheckWritable(ctx context.Context) error
}

// Blobs stores artifacts.
type Blobs interface {
	// Put stores body under name and returns its URI. It stores the whole body or nothing. Repeated calls with the same
	// name must have the same bytes. Errors: ErrTooLarge, ErrUnavailable, those of body.
	Put(ctx context.Context, name string, body io.Reader) (uri, sha256 string, size int64, err error)
	// Open returns the content of an artifact, or ErrNotFound. The caller closes it. Seek reads nothing: the next Read
	// begins there. Reads return ErrTorn for an object that cannot be decompressed. Only Verify finds other damage: the
	// log has the size and the digest.
	Open(ctx context.Context, uri string) (io.ReadSeekCloser, error)
}
