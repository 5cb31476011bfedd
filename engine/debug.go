package engine

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Debugger is an Engine that describes its internals. No decision may depend on them.
type Debugger interface {
	// Debug describes a run's executions. Errors: ErrNotStarted if the engine has none, ErrUnavailable.
	Debug(ctx context.Context, id run.Identity) (Debug, error)
}

// Debug is the engine's description of a run (contract T107).
type Debug struct {
	// Executions is the chain, oldest first: the newest MaxExecutions of Total.
	Executions []Execution    `json:"executions"`
	Total      int            `json:"total"`
	Pending    []Pending      `json:"pending"` // activities of the last execution
	Last       []HistoryEvent `json:"last"`    // its last events, newest last
}

// Bounds of a Debug.
const (
	MaxExecutions    = 100
	MaxHistoryEvents = 20
)

// Execution is one execution of a chain.
type Execution struct {
	EngineRunID string     `json:"engineRunId"`
	Status      string     `json:"status"` // in the engine's terms
	StartedAt   time.Time  `json:"startedAt"`
	ClosedAt    *time.Time `json:"closedAt,omitempty"`
	Events      int64      `json:"historyEvents"`
	Bytes       int64      `json:"historyBytes"`
}

// Pending is an activity that is scheduled or running.
type Pending struct {
	ID            string     `json:"id"` // stepId/logicalAttempt.n of a step (contract T184)
	Type          string     `json:"type"`
	State         string     `json:"state"`
	Attempt       int        `json:"attempt"`
	LastHeartbeat *time.Time `json:"lastHeartbeat,omitempty"`
	LastFailure   string     `json:"lastFailure,omitempty"`
}

// HistoryEvent is one event of the engine's history.
type HistoryEvent struct {
	No   int64     `json:"no"` // in the history of its execution, from 1
	At   time.Time `json:"at"` // by the engine's clock
	What string    `json:"what"`
}
