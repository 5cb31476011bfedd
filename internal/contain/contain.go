// Package contain prevents a panic of background work from ending the process. Otherwise one run could stop the server
// for all tenants, and the next server would work on the same run and end too.
package contain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// PanicError is a recovered panic. Its message omits the value, which may hold data of a tenant; Guard writes the value
// to the log of the process.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string {
	return "dvt has a fault: this work panicked, and the log says where"
}

// Call runs f on the caller's goroutine and returns its error. It returns a panic of f as a *PanicError and does not
// intercept runtime.Goexit.
func Call(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Pauses of Guard.Loop after a panic.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// Guard logs and counts the panics of one process. The zero value and a nil Guard neither log nor count. A Guard is
// safe for concurrent use.
type Guard struct {
	log    *slog.Logger
	panics *prometheus.CounterVec
	pause  time.Duration // set by tests; firstPause when zero
}

// New returns a guard. Guards of one registry share the counter dvt_panics_total. r and log may be nil.
func New(r prometheus.Registerer, log *slog.Logger) *Guard {
	g := &Guard{log: log, panics: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dvt_panics_total", Help: "Panics of background work that were contained, by duty. Each is a fault of dvt.",
	}, []string{"duty"})}
	if r == nil {
		return g
	}
	var known prometheus.AlreadyRegisteredError
	if err := r.Register(g.panics); errors.As(err, &known) {
		if counter, same := known.ExistingCollector.(*prometheus.CounterVec); same {
			g.panics = counter
		}
	}
	return g
}

// Call runs f like the function Call, and logs and counts a panic. duty is a constant, because it labels a metric.
// about names the run or other subject, or is empty.
func (g *Guard) Call(duty, about string, f func() error) error {
	err := Call(f)
	g.Report(duty, about, err)
	return err
}

// Report logs and counts err if it is a *PanicError, and reports whether it is one.
func (g *Guard) Report(duty, about string, err error) bool {
	p, panicked := errors.AsType[*PanicError](err)
	if !panicked {
		return false
	}
	if g == nil {
		return true
	}
	if g.panics != nil {
		g.panics.WithLabelValues(duty).Inc()
	}
	if g.log != nil {
		g.log.LogAttrs(context.Background(), slog.LevelError, "background work panicked: a fault of dvt, please report it",
			slog.String("duty", duty), slog.String("about", about), slog.String("panic", fmt.Sprint(p.Value)),
			slog.String("stack", string(p.Stack)))
	}
	return true
}

// Loop runs f, and runs it again after each panic, with pauses that grow from a second to a minute. It returns the
// error of f when f returns, or nil when ctx ends during a pause.
func (g *Guard) Loop(ctx context.Context, duty string, f func(context.Context) error) error {
	first := firstPause
	if g != nil && g.pause > 0 {
		first = g.pause
	}
	pause := first
	for {
		began := time.Now()
		err := g.Call(duty, "", func() error { return f(ctx) })
		if _, panicked := errors.AsType[*PanicError](err); !panicked {
			return err
		}
		if time.Since(began) > longestPause { // f worked for a while, so this panic is a new one
			pause = first
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		pause = min(2*pause, longestPause)
	}
}
