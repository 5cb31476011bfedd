package temporal

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

// sdkLogger writes the lines of the SDK. The SDK reports every execution that returns an error as an error of the
// worker. A step that was stopped as requested is no fault of dvt, and the log of the run has it, so its line has the
// level DEBUG.
//
// While Temporal is down, each poller reports the same error every few seconds. Such a failure has one line a minute,
// with the number of those that it stands for.
type sdkLogger struct {
	sdklog.Logger
	repeats *repeats
}

func newSDKLogger(log *slog.Logger) sdkLogger {
	return sdkLogger{sdklog.NewStructuredLogger(log), &repeats{now: time.Now, last: map[string]*repeat{}}}
}

// Error implements log.Logger.
func (l sdkLogger) Error(msg string, keyvals ...any) {
	if err := errorIn(keyvals); err != nil && temporal.IsCanceledError(err) {
		l.Debug(msg, keyvals...)
		return
	}
	if more, write := l.repeats.add(msg, keyvals); write {
		l.Logger.Error(msg, more...)
	}
}

// Warn implements log.Logger.
func (l sdkLogger) Warn(msg string, keyvals ...any) {
	if more, write := l.repeats.add(msg, keyvals); write {
		l.Logger.Warn(msg, more...)
	}
}

func errorIn(keyvals []any) error {
	for _, v := range keyvals {
		if err, ok := v.(error); ok {
			return err
		}
	}
	return nil
}

const (
	repeatEvery = time.Minute
	maxRepeats  = 100 // kinds of lines that are remembered
)

// repeats knows the failures that were logged. It is safe for concurrent use.
type repeats struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[string]*repeat
}

type repeat struct {
	at    time.Time // of the newest line
	more  int       // lines left out since then
	since time.Time // of the first line left out
}

// add reports whether to write a line, and returns its fields. A line without an error is always written.
func (r *repeats) add(msg string, keyvals []any) ([]any, bool) {
	err := errorIn(keyvals)
	if err == nil {
		return keyvals, true
	}
	key := fmt.Sprintf("%s|%v", msg, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	x := r.last[key]
	switch {
	case x == nil:
		if len(r.last) >= maxRepeats {
			clear(r.last)
		}
		r.last[key] = &repeat{at: now}
		return keyvals, true
	case now.Sub(x.at) < repeatEvery:
		if x.more++; x.more == 1 {
			x.since = now
		}
		return nil, false
	}
	if x.more > 0 {
		keyvals = append(keyvals[:len(keyvals):len(keyvals)], "Repeated", x.more, "Since", x.since)
	}
	*x = repeat{at: now}
	return keyvals, true
}
