package engine

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Debugger is an Engine that can be looked into. Nothing decides on what it says.
type Debugger interface {
	// Debug describes a run's executions. ErrNotStarted when the engine knows none.
	Debug(ctx context.Context, id run.Identity) (Debug, error)
}

// Debug is what an engine knows of a run (T107).
type Debug struct {
	// Executions is the chain, oldest first: its newest MaxExecutions, where it has
	// more than Total says.
	Executions []Execution `json:"executions"`
	Total      int         `json:"total"`
	Pending    []Pending   `json:"pending"` // activities of the last execution
	Last       []Recall    `json:"last"`    // its last events, newest last
}

// Bounds of a Debug.
const (
	MaxExecutions = 100
	MaxRecalled   = 20
)

// Execution is one of the chain.
type Execution struct {
	EngineRunID string     `json:"engineRunId"`
	Status      string     `json:"status"` // the engine's own word
	StartedAt   time.Time  `json:"startedAt"`
	ClosedAt    *time.Time `json:"closedAt,omitempty"`
	Events      int64      `json:"historyEvents"`
	Bytes       int64      `json:"historyBytes"`
}

// Pending is an activity that is scheduled or runs.
type Pending struct {
	ID            string     `json:"id"` // stepId/la.n of a step (T184)
	Type          string     `json:"type"`
	State         string     `json:"state"`
	Attempt       int        `json:"attempt"`
	LastHeartbeat *time.Time `json:"lastHeartbeat,omitempty"`
	LastFailure   string     `json:"lastFailure,omitempty"`
}

// Recall is one event of the engine's history.
type Recall struct {
	No   int64     `json:"no"`
	At   time.Time `json:"at"`
	What string    `json:"what"`
}
