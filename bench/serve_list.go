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

// listed is a page of runs in memory.
type listed struct {
	graph.UseCases // nil: the figure calls only the methods below
	page           control.RunsPage
}

// Runs implements graph.ListReads.
func (l listed) Runs(context.Context, authz.Principal, control.RunsQuery) (control.RunsPage, error) {
	return l.page, nil
}

// serveList answers the list query by dvt.
func serveList(_ context.Context, o rig.Options) (served, error) {
	l := listed{page: control.RunsPage{Runs: make([]control.RunView, listedRuns), Cursors: make([]string, listedRuns)}}
	for i := range l.page.Runs {
		r, err := newMadeUpRun(rig.RunName(i), listedSteps)
		if err != nil {
			return served{}, err
		}
		l.page.Runs[i] = control.RunView{State: run.State{Header: r.header, Steps: r.steps}, Epoch: madeUpEpoch, AsOf: r.at}
		l.page.Cursors[i] = rig.RunName(i)
	}
	h := handlerOf(o.Stock, graph.UseCasesOf(l), graph.Config{Authenticate: func(string) (authz.Principal, error) {
		return authz.Principal{ID: viewerToken, TenantID: runtest.ID.TenantID}, nil
	}})
	return served{handler: h, close: func() error { return nil }}, nil
}

// answerOf is the answer to the list query as a program without GraphQL has it.
type answerOf struct {
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

// serveEncoding answers every request with the payload, which encoding/json writes again each time from a struct.
func serveEncoding(_ context.Context, o rig.Options) (served, error) {
	var a answerOf
	if err := json.Unmarshal([]byte(o.Payload), &a); err != nil {
		return served{}, err
	}
	if text, err := json.Marshal(a); err != nil || string(text) != strings.TrimSpace(o.Payload) {
		return served{}, fmt.Errorf("encoding/json writes other bytes than the API (%w): %.2000s and %.2000s", err, text,
			o.Payload)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Query string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
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
	return served{handler: http.HandlerFunc(answer), close: func() error { return nil }}, nil
}
