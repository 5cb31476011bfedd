package temporal

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Router is the Engine of an installation with several namespaces. A run is started in the namespace that Route names.
// It stays where it was started, also after Route has changed: every call that does not find the run there looks in the
// other namespaces. With one namespace a Router calls its Engine and nothing else. Create it with NewRouter; it is safe
// for concurrent use.
type Router struct {
	names   []string
	engines map[string]*Engine
	route   Route
}

// Route decides about namespaces. Both functions are pure and return names of Engines of the Router.
type Route struct {
	// Of returns the namespace in which a run is started.
	Of func(id run.Identity) string
	// Serving lists the namespaces in which tasks of a queue may wait.
	Serving func(queue string) []string
}

var (
	_ engine.Engine    = (*Router)(nil)
	_ engine.Census    = (*Router)(nil)
	_ engine.Historian = (*Router)(nil)
	_ engine.Debugger  = (*Router)(nil)
	_ engine.Pollers   = (*Router)(nil)
	_ engine.Waiter    = (*Router)(nil)
)

// NewRouter returns the Engine over at least one Engine with distinct namespaces.
func NewRouter(engines []*Engine, route Route) *Router {
	r := &Router{engines: map[string]*Engine{}, route: route}
	for _, e := range engines {
		r.names, r.engines[e.namespace] = append(r.names, e.namespace), e
	}
	return r
}

// order lists the Engines, that of the namespace in which a run is started first. An identity without an environment
// may belong into any.
func (r *Router) order(id run.Identity) []*Engine {
	out := make([]*Engine, 0, len(r.names))
	home := r.engines[r.route.Of(id)]
	if home != nil {
		out = append(out, home)
	}
	for _, name := range r.names {
		if e := r.engines[name]; e != home {
			out = append(out, e)
		}
	}
	return out
}

// find returns the Engine that has an execution of a run, and its description. An execution that dvt started wins over
// a foreign one, then the order. Errors: engine.ErrNotStarted, engine.ErrUnavailable if a namespace could not be asked.
func (r *Router) find(ctx context.Context, id run.Identity) (*Engine, engine.Description, error) {
	var foreign *Engine
	var held engine.Description
	for _, e := range r.order(id) {
		d, err := e.Describe(ctx, id)
		switch {
		case errors.Is(err, engine.ErrNotStarted):
		case err != nil:
			return nil, d, err
		case d.Foreign == "":
			return e, d, nil
		case foreign == nil:
			foreign, held = e, d
		}
	}
	if foreign == nil {
		return nil, held, engine.ErrNotStarted
	}
	return foreign, held, nil
}

// locate returns the Engine to ask about a run. It asks nobody when there is only one.
func (r *Router) locate(ctx context.Context, id run.Identity) (*Engine, error) {
	if len(r.names) == 1 {
		return r.engines[r.names[0]], nil
	}
	e, _, err := r.find(ctx, id)
	return e, err
}

// Start implements engine.Engine. A run that another namespace has, because the settings were others when it was
// started, is found there and not started again.
func (r *Router) Start(ctx context.Context, id run.Identity, q plan.Queues) (engine.Started, error) {
	order := r.order(id)
	found, failed := make([]engine.Description, len(order)), make([]error, len(order))
	var all sync.WaitGroup
	for i, e := range order[1:] {
		all.Go(func() { found[i+1], failed[i+1] = e.Describe(ctx, id) })
	}
	all.Wait()
	for i, err := range failed {
		var missing *serviceerror.NamespaceNotFound
		switch {
		case i == 0 || errors.Is(err, engine.ErrNotStarted) || errors.As(err, &missing):
		case err != nil: // it may have the run
			return engine.Started{}, err
		case found[i].Foreign == "":
			found[i].Ref.TaskQueue = q.Control
			return engine.Started{Ref: found[i].Ref}, nil
		}
	}
	return order[0].Start(ctx, id, q)
}

// Signal implements engine.Engine.
func (r *Router) Signal(ctx context.Context, id run.Identity, s engine.Signal) error {
	order := r.order(id)
	err := order[0].Signal(ctx, id, s)
	if len(order) == 1 || !errors.Is(err, engine.ErrNotStarted) && !errors.Is(err, engine.ErrClosed) {
		return err
	}
	e, _, finding := r.find(ctx, id)
	switch {
	case finding != nil:
		return finding
	case e == order[0]:
		return err
	}
	return e.Signal(ctx, id, s)
}

// Terminate implements engine.Engine.
func (r *Router) Terminate(ctx context.Context, id run.Identity, reason string) error {
	e, err := r.locate(ctx, id)
	if err != nil {
		return err
	}
	return e.Terminate(ctx, id, reason)
}

// Describe implements engine.Engine.
func (r *Router) Describe(ctx context.Context, id run.Identity) (engine.Description, error) {
	_, d, err := r.find(ctx, id)
	return d, err
}

// Capabilities implements engine.Engine.
func (r *Router) Capabilities() []engine.Capability { return r.engines[r.names[0]].Capabilities() }

// Debug implements engine.Debugger.
func (r *Router) Debug(ctx context.Context, id run.Identity) (engine.Debug, error) {
	e, err := r.locate(ctx, id)
	if err != nil {
		return engine.Debug{}, err
	}
	return e.Debug(ctx, id)
}

// Waits implements engine.Waiter.
func (r *Router) Waits(ctx context.Context, id run.Identity) (engine.Waits, error) {
	order := r.order(id)
	out, err := order[0].Waits(ctx, id)
	if len(order) == 1 || !errors.Is(err, engine.ErrNotStarted) && !errors.Is(err, engine.ErrClosed) {
		return out, err
	}
	e, _, finding := r.find(ctx, id)
	if finding != nil || e == order[0] {
		return out, errors.Join(finding, err)
	}
	return e.Waits(ctx, id)
}

// History implements engine.Historian.
func (r *Router) History(ctx context.Context, id run.Identity) iter.Seq2[engine.Recorded, error] {
	return func(yield func(engine.Recorded, error) bool) {
		e, err := r.locate(ctx, id)
		if err != nil {
			yield(engine.Recorded{}, err)
			return
		}
		e.History(ctx, id)(yield)
	}
}

// Runs implements engine.Historian.
func (r *Router) Runs(ctx context.Context) iter.Seq2[engine.Description, error] {
	return r.inEach(func(e *Engine) iter.Seq2[engine.Description, error] { return e.Runs(ctx) })
}

// ListClosed implements engine.Census.
func (r *Router) ListClosed(ctx context.Context, since time.Time) iter.Seq2[engine.Description, error] {
	return r.inEach(func(e *Engine) iter.Seq2[engine.Description, error] { return e.ListClosed(ctx, since) })
}

// inEach yields the descriptions of each namespace, one namespace after the other, and ends with the first error.
func (r *Router) inEach(of func(*Engine) iter.Seq2[engine.Description, error]) iter.Seq2[engine.Description, error] {
	return func(yield func(engine.Description, error) bool) {
		for _, name := range r.names {
			for d, err := range of(r.engines[name]) {
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
}

// FindOpen implements engine.Census. It fails when one namespace does not answer, because a run that is open there
// would be taken for lost.
func (r *Router) FindOpen(ctx context.Context, ids []run.Identity) (map[string]bool, error) {
	open := map[string]bool{}
	for _, name := range r.names {
		found, err := r.engines[name].FindOpen(ctx, ids)
		if err != nil {
			return nil, err
		}
		for id := range found {
			open[id] = true
		}
	}
	return open, nil
}

// ListOpen implements engine.Census. A page names the namespace that it continues.
func (r *Router) ListOpen(ctx context.Context, page string) (ids []run.Identity, next string, err error) {
	name, of, _ := strings.Cut(page, "\n")
	i := max(slices.Index(r.names, name), 0)
	if page != "" && r.names[i] != name {
		of = "" // the namespace is no longer served: begin again
	}
	if ids, next, err = r.engines[r.names[i]].ListOpen(ctx, of); err != nil {
		return nil, "", err
	}
	switch {
	case next != "":
		next = r.names[i] + "\n" + next
	case i+1 < len(r.names):
		next = r.names[i+1] + "\n"
	}
	return ids, next, nil
}

// TerminateForeign implements engine.Census. It ends foreign executions in every namespace.
func (r *Router) TerminateForeign(ctx context.Context, id run.Identity, reason string) error {
	out := engine.ErrNotStarted
	for _, e := range r.order(id) {
		switch err := e.TerminateForeign(ctx, id, reason); {
		case err == nil:
			out = nil
		case errors.Is(err, engine.ErrClosed):
			if out != nil {
				out = err
			}
		case !errors.Is(err, engine.ErrNotStarted):
			return err
		}
	}
	return out
}

// Pollers implements engine.Pollers. Where tasks wait in some of the namespaces of a queue, the answer is about the
// workers there: those of the others do not take them.
func (r *Router) Pollers(ctx context.Context, queue string) (out engine.QueuePollers, err error) {
	for i, name := range r.route.Serving(queue) {
		p, err := r.engines[name].Pollers(ctx, queue)
		if err != nil {
			return engine.QueuePollers{}, err
		}
		switch {
		case i == 0:
			out = p
			continue
		case (p.Waiting > 0) == (out.Waiting > 0) && p.Waiting > 0: // the worse served one counts
			out.Count = min(out.Count, p.Count)
			if p.LastSeen.Before(out.LastSeen) {
				out.LastSeen = p.LastSeen
			}
		case p.Waiting > 0:
			out.Count, out.LastSeen = p.Count, p.LastSeen
		case out.Waiting == 0:
			out.Count = max(out.Count, p.Count)
			if p.LastSeen.After(out.LastSeen) {
				out.LastSeen = p.LastSeen
			}
		}
		out.Waiting += p.Waiting
	}
	return out, nil
}

// CountTenant counts the executions of a tenant in all namespaces.
func (r *Router) CountTenant(ctx context.Context, tenantID string) (total int64, err error) {
	for _, name := range r.names {
		n, err := r.engines[name].CountTenant(ctx, tenantID)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// ForgetTenant is Engine.ForgetTenant in all namespaces; limit holds for all together.
func (r *Router) ForgetTenant(ctx context.Context, tenantID string, limit int) (forgotten int64, more bool, err error) {
	for _, name := range r.names {
		n, others, err := r.engines[name].ForgetTenant(ctx, tenantID, limit-int(forgotten))
		forgotten += n
		more = more || others
		if err != nil {
			return forgotten, true, err
		}
		if forgotten >= int64(limit) {
			return forgotten, true, nil
		}
	}
	return forgotten, more, nil
}

// ForgetRun is Engine.ForgetRun in all namespaces.
func (r *Router) ForgetRun(ctx context.Context, id run.Identity) error {
	for _, name := range r.names {
		if err := r.engines[name].ForgetRun(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Histories is Engine.Histories over all namespaces.
func (r *Router) Histories(ctx context.Context, since time.Time,
	skip func(runID, engineRunID string) bool) iter.Seq2[Captured, error] {
	return func(yield func(Captured, error) bool) {
		for _, name := range r.names {
			for h, err := range r.engines[name].Histories(ctx, since, skip) {
				if !yield(h, err) || err != nil {
					return
				}
			}
		}
	}
}
