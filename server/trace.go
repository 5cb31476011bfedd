package server

import "github.com/dvt-engine/dvt/tracer"

// newTracer returns the exporter of the traces of runs.
func (p *parts) newTracer() *tracer.Exporter {
	return tracer.New(tracer.Config{
		Store: p.raw, Sender: p.spans, Owner: p.owner, Ratio: p.cfg.TraceRuns, Metrics: p.registry, Logger: p.log,
	})
}
