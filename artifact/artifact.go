// Package artifact keeps what steps leave behind: artifacts by reference and
// the lines they printed, by attempt. Everything is bounded; secrets never
// reach it.
package artifact

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNotFound is returned for what is not (or no longer) kept.
var ErrNotFound = errors.New("artifact: not found")

// Line is one line of a step's log.
type Line struct {
	No            int64     `json:"no"` // from 1 within the logical attempt
	At            time.Time `json:"at"`
	Stream        string    `json:"stream"` // stdout, stderr or dvt
	EngineAttempt int       `json:"ea"`
	Text          string    `json:"text"`
}

// Page is some lines of a log, in order.
type Page struct {
	Lines []Line
	// Total is the number of the last line there is.
	Total int64
	// Missing is what was dropped between the beginning and the end of a log past its
	// limits; the number Missing.To is that of a dvt line that says so. Zero: nothing.
	Missing Missing
}

// Missing is numbers of lines, both ends included. Once there is one, From stays and To grows.
type Missing struct{ From, To int64 }

// AttemptID names the log of one logical attempt.
type AttemptID struct {
	TenantID, RunID, StepID string
	LogicalAttempt          int
}

// Logs keeps step logs. Safe for concurrent use by several processes that share
// the bucket, as long as one attempt is written by one process at a time.
type Logs interface {
	// Append adds lines of one engine attempt. from is the number of the first
	// line within that engine attempt (from 1): lines already kept are dropped,
	// so a repeated call changes nothing (T229). Of a log past its limits the middle is
	// dropped; what is kept keeps its number.
	Append(ctx context.Context, id AttemptID, engineAttempt int, from int64, lines []Line) error
	// Read returns lines with No >= from, at most limit.
	Read(ctx context.Context, id AttemptID, from int64, limit int) (Page, error)
	// Find returns the numbers of kept lines that contain text, at most limit, and the number of matches.
	Find(ctx context.Context, id AttemptID, text string, limit int) (nos []int64, total int64, err error)
	// ErrorLine returns the number of the line at which to begin to read why an engine
	// attempt failed: the first one on stderr that speaks of a failure, else the first on
	// stderr, else the last there is; 0 when it printed none.
	ErrorLine(ctx context.Context, id AttemptID, engineAttempt int) (no int64, err error)
	// Follow wakes the channel when an attempt in this process' reach has new
	// lines; a wake-up carries nothing and may be spurious. It ends with ctx.
	Follow(ctx context.Context, id AttemptID) <-chan struct{}
}

// Blobs keeps artifacts.
type Blobs interface {
	// Put stores body under name and returns its URI; the same name twice
	// overwrites with what must be the same bytes.
	Put(ctx context.Context, name string, body io.Reader) (uri, sha256 string, size int64, err error)
	Open(ctx context.Context, uri string) (io.ReadCloser, error)
}
