// Package contain keeps a panic of background work from ending the process. Work of one run must not take the server
// from all tenants: the next server would take up the same run and end too.
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

// PanicError is a panic that was turned into an error. Its message does not name the value, which may hold what a tenant wrote;
// the log of the process does.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string {
	return "dvt has a fault: this work panicked, and the log says where"
}

// Call runs f on the goroutine of its caller. A panic of f is returned as a *PanicError. runtime.Goexit is left alone.
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

// Guard logs and counts the panics of one process. The zero value tells nobody, and so does a nil Guard, which has no
// Loop. It is safe for concurrent use.
type Guard struct {
	log    *slog.Logger
	panics *prometheus.CounterVec
	pause  time.Duration // of a test; firstPause when zero
}

// New makes a guard. Guards of one registry share the counter dvt_panics_total; r and log may be nil.
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

// Call is Call, and tells of a panic. duty is a constant; about names the run or other subject, or is empty.
func (g *Guard) Call(duty, about string, f func() error) error {
	err := Call(f)
	g.Tell(duty, about, err)
	return err
}

// Tell logs and counts err if it is a *PanicError, and reports whether it is one.
func (g *Guard) Tell(duty, about string, err error) bool {
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
			slog.String("duty", duty), slog.String("about", about), slog.String("panic", fmt.Sprint(p.Value)), slog.String("stack", string(p.Stack)))
	}
	return true
}

// Loop runs f until it returns, and again after each panic, with pauses that grow from a second to a minute. It returns
// what f returned, or nil once ctx has ended.
func (g *Guard) Loop(ctx context.Context, duty string, f func(context.Context) error) error {
	pause := g.pause
	if pause <= 0 {
		pause = firstPause
	}
	for {
		began := time.Now()
		err := g.Call(duty, "", func() error { return f(ctx) })
		if _, panicked := errors.AsType[*PanicError](err); !panicked {
			return err
		}
		if time.Since(began) > longestPause { // it worked in between
			pause = max(g.pause, firstPause)
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
