package connect

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/config"
)

// Engine is the engine of an installation over all of its namespaces, with their clients. Close it after use.
type Engine struct {
	*temporal.Router
	clients NamespaceClients
}

// NamespaceClients are clients by the name of their namespace.
type NamespaceClients map[string]temporal.Client

// Close closes the clients. It is safe on nil.
func (e *Engine) Close() {
	if e != nil {
		e.clients.Close()
	}
}

// Close closes the clients.
func (n NamespaceClients) Close() {
	for _, c := range n {
		c.Close()
	}
}

// pingTime bounds one Ping.
const pingTime = 5 * time.Second

// Ping reports within five seconds whether the server serves every namespace of the settings. Errors are those of
// temporal.Connection.Ping.
func Ping(ctx context.Context, c *config.Config, to temporal.Connection) error {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	for _, name := range c.Strategy().All() {
		to.Namespace = name
		if err := to.Ping(ctx); err != nil {
			return fmt.Errorf("the namespace %s: %w", name, err)
		}
	}
	return nil
}

// OpenEngine returns the engine over the namespaces of the settings. It connects at the first call.
func OpenEngine(c *config.Config, to temporal.Connection, cfg temporal.Config, log *slog.Logger) (*Engine, error) {
	strategy, queues := c.Strategy(), c.PlanQueues()
	if len(strategy.Tiers) > 0 {
		cfg.Tier = strategy.Tier
	}
	clients, err := Clients(c, to, log)
	if err != nil {
		return nil, err
	}
	var engines []*temporal.Engine
	for _, name := range strategy.All() {
		engines = append(engines, temporal.New(clients[name], name, cfg))
	}
	return &Engine{temporal.NewRouter(engines, temporal.Route{
		Of:      func(id run.Identity) string { return strategy.Of(id) },
		Serving: func(queue string) []string { return strategy.Serving(queue, queues) },
	}), clients}, nil
}

// Clients returns a client for each namespace of the settings, by name. They connect at their first call. The caller
// closes them.
func Clients(c *config.Config, to temporal.Connection, log *slog.Logger) (NamespaceClients, error) {
	out := NamespaceClients{}
	for _, name := range c.Strategy().All() {
		to.Namespace = name
		made, err := temporal.Connect(to, log)
		if err != nil {
			out.Close()
			return nil, err
		}
		out[name] = made
	}
	return out, nil
}

// Workers returns the client and the settings with which temporal.Run serves the queues of w in every namespace in
// which their tasks may wait.
func (n NamespaceClients) Workers(c *config.Config, w temporal.WorkerConfig) (temporal.Client, temporal.WorkerConfig) {
	strategy, queues := c.Strategy(), c.PlanQueues()
	byName := map[string]*temporal.Served{}
	of := func(name string) *temporal.Served {
		if byName[name] == nil {
			byName[name] = &temporal.Served{Client: n[name], Namespace: name}
		}
		return byName[name]
	}
	for _, queue := range w.Control {
		for _, name := range strategy.Serving(queue, queues) {
			of(name).Control = append(of(name).Control, queue)
		}
	}
	for _, queue := range w.Data {
		for _, name := range strategy.Serving(queue, queues) {
			of(name).Data = append(of(name).Data, queue)
		}
	}
	w.Control, w.Data, w.Elsewhere = nil, nil, nil
	var first temporal.Client
	for _, name := range strategy.All() {
		switch s := byName[name]; {
		case s == nil:
		case first == nil:
			first, w.Namespace, w.Control, w.Data = s.Client, name, s.Control, s.Data
		default:
			w.Elsewhere = append(w.Elsewhere, *s)
		}
	}
	return first, w
}

// Workers is NamespaceClients.Workers.
func (e *Engine) Workers(c *config.Config, w temporal.WorkerConfig) (temporal.Client, temporal.WorkerConfig) {
	return e.clients.Workers(c, w)
}
