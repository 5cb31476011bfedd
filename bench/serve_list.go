package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

const (
	listedRuns  = 50
	listedSteps = 20

	listQuery = `{runs(first:50){edges{node{` + selectedRun + ` steps{` + selectedStep + `}}}}}`
)

// memoryList implements the use case of the list with one page of runs in memory.
type memoryList struct {
	graph.UseCases // nil: the figure calls only the methods below
	page           control.RunsPage
}

// Runs implements graph.ListReads.
func (l memoryList) Runs(context.Context, authz.Principal, control.RunsQuery) (control.RunsPage, error) {
	return l.page, nil
}

// serveList serves the list query with dvt.
func serveList(_ context.Context, o rig.Options) (figureServer, error) {
	l := memoryList{page: control.RunsPage{Runs: make([]control.RunView, listedRuns), Cursors: make([]string, listedRuns)}}
	for i := range l.page.Runs {
		r, err := newMemoryRun(rig.RunName(i), listedSteps)
		if err != nil {
			return figureServer{}, err
		}
		l.page.Runs[i] = control.RunView{State: run.State{Header: r.header, Steps: r.steps}, Epoch: memoryEpoch, AsOf: r.at}
		l.page.Cursors[i] = rig.RunName(i)
	}
	h := newHandler(o.Stock, l, graph.Config{Authenticate: func(string) (authz.Principal, error) {
		return authz.Principal{ID: viewerToken, TenantID: runtest.ID.TenantID}, nil
	}})
	return figureServer{handler: h, close: func() error { return nil }}, nil
}

// listResponse is the response to the list query as a struct, for a program without GraphQL.
type listResponse struct {
	Data struct {
		Runs struct {
			Edges []struct {
				Node struct {
					RunID       string     `json:"runId"`
					Status      string     `json:"status"`
					StatusRaw   string     `json:"statusRaw"`
					OpsRev      int64      `json:"opsRev"`
					CreatedAt   time.Time  `json:"createdAt"`
					StartedAt   *time.Time `json:"startedAt"`
					FailedSteps int        `json:"failedSteps"`
					Steps       []struct {
						StepID           string     `json:"stepId"`
						Type             string     `json:"type"`
						Status           string     `json:"status"`
						LogicalAttemptID int        `json:"logicalAttemptId"`
						EngineAttemptID  *int       `json:"engineAttemptId"`
						StartedAt        *time.Time `json:"startedAt"`
						CompletedAt      *time.Time `json:"completedAt"`
						ChangedSeq       int64      `json:"changedSeq"`
					} `json:"steps"`
				} `json:"node"`
			} `json:"edges"`
		} `json:"runs"`
	} `json:"data"`
}

// serveEncoding replies to every request with the payload, which encoding/json encodes from a struct each time. It
// returns an error if the bytes differ from the payload, because the comparison would then be unfair.
func serveEncoding(_ context.Context, o rig.Options) (figureServer, error) {
	var a listResponse
	if err := json.Unmarshal([]byte(o.Payload), &a); err != nil {
		return figureServer{}, err
	}
	if text, err := json.Marshal(a); err != nil || string(text) != strings.TrimSpace(o.Payload) {
		return figureServer{}, fmt.Errorf("encoding/json and the API write different bytes (%w): %.2000s and %.2000s", err,
			text, o.Payload)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Query string }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		text, err := json.Marshal(a)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	}
	return figureServer{handler: http.HandlerFunc(answer), close: func() error { return nil }}, nil
}
