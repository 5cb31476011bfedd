package cmdline

import (
	"io"
	"time"

	"github.com/Khan/genqlient/graphql"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
)

// Session is what commands need of the session of a client. It may be used only while a command runs.
type Session struct {
	Client func() graphql.Client
	Out    func() io.Writer
	Notes  func() io.Writer // remarks for people
	IsData func() bool      // the output is for programs
	Print  func(v any) error
	Table  func(head ...string) *console.Table
	When   func(t *time.Time) string
	// Instant parses a time, or how long ago one was, of a flag; nil for "".
	Instant func(flag, given string, now time.Time) (*time.Time, error)
}
