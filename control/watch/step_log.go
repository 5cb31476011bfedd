package watch

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// StepLogFrame has newly printed lines.
type StepLogFrame struct {
	Attempt int
	artifact.Page
	Complete bool
	AsOf     time.Time
}

// DeltaStore reads the changes of a run.
type DeltaStore interface {
	Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error)
}

// LogWatcher opens streams of the logs of attempts. It is safe for concurrent use.
type LogWatcher struct {
	rights *control.Rights
	store  DeltaStore
	reader *reads.LogReader
	quiet  time.Duration
}

// NewLogWatcher makes a LogWatcher.
func NewLogWatcher(rights *control.Rights, store DeltaStore, reader *reads.LogReader, quiet time.Duration) *LogWatcher {
	return &LogWatcher{rights: rights, store: store, reader: reader, quiet: quiet}
}

// WatchStepLog returns a stream of the log of one logical attempt, from a line on. When the attempt has ended and every
// line was sent, one frame says Complete; after that the stream only repeats it at the quiet interval. Errors:
// NOT_FOUND, BAD_USER_INPUT.
func (s *LogWatcher) WatchStepLog(ctx context.Context, p authz.Principal,
	in reads.StepLogQuery) (control.Stream[StepLogFrame],
	error) {
	a, err := s.reader.Attempt(ctx, p, &in)
	if err != nil {
		return nil, err
	}
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &logStream{
		s: s, guard: s.rights.GuardRun(p, a.Run.Identity), id: a.Id, in: in, seq: a.Seq, epoch: a.Epoch, done: a.Done,
		next: in.FromLine, wake: s.reader.Logs.Follow(follow, a.Id), stop: stop, first: true,
	}, nil
}

type logStream struct {
	s        *LogWatcher
	guard    control.Guard
	id       artifact.AttemptID
	in       reads.StepLogQuery
	next     int64
	seq      run.Seq // position in the run's log at the last check
	epoch    string  // epoch of the store at that time
	done     bool    // the attempt was over before the last read
	asked    time.Time
	complete bool // a frame said Complete
	first    bool
	wake     <-chan struct{}
	stop     context.CancelFunc
}

func (l *logStream) Next(ctx context.Context) (f StepLogFrame, err error) {
	err = l.guard.Wait(ctx, func(ctx context.Context) (err error) {
		f, err = l.read(ctx)
		return err
	})
	return f, err
}

func (l *logStream) read(ctx context.Context) (StepLogFrame, error) {
	s := l.s
	deadline := time.NewTimer(s.quiet)
	defer deadline.Stop()
	for quiet := false; ; {
		page, err := s.reader.Logs.Read(ctx, l.id, l.next, reads.MaxLogLines)
		if err != nil {
			return StepLogFrame{}, err
		}
		f := StepLogFrame{Attempt: l.in.Attempt, Page: page, AsOf: s.rights.Now()}
		lines := page.Lines
		over := l.done && len(lines) < reads.MaxLogLines
		if len(lines) > 0 || quiet || l.first || over && !l.complete {
			if n := len(lines); n > 0 {
				l.next = lines[n-1].No + 1
			}
			l.first = false
			l.complete = over
			f.Complete = over
			return f, nil
		}
		select {
		case <-ctx.Done():
			return StepLogFrame{}, ctx.Err()
		case <-l.wake:
		case <-time.After(time.Second):
		case <-deadline.C:
			quiet = true
		}
		if err := l.checkDone(ctx); err != nil {
			return StepLogFrame{}, err
		}
	}
}

// checkDone checks, at most once a second, whether the attempt has ended. It reads the changes of the run since the
// last check. Lines are stored before the end of their attempt, so none are missed. While the store does not answer,
// the attempt counts as not ended.
func (l *logStream) checkDone(ctx context.Context) error {
	if l.done || time.Since(l.asked) < time.Second {
		return nil
	}
	l.asked = time.Now()
	now, d, err := l.s.store.Since(ctx, l.in.RunID, l.seq)
	if errors.Is(err, store.ErrUnavailable) {
		return nil
	}
	if err != nil {
		return err
	}
	if now.Epoch != l.epoch { // the store was restored: the next check reads the whole state
		l.seq, l.epoch = 0, now.Epoch
		return nil
	}
	l.seq, l.done = d.To, d.Header.Status.Terminal()
	for _, step := range d.Steps {
		if step.StepID == l.in.StepID {
			l.done = reads.HasAttemptEnded(d.Header.Status, step, l.in.Attempt)
		}
	}
	return nil
}

func (l *logStream) Close() { l.stop() }
