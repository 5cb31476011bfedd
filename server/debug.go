package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
)

// debugRun serves GET /engine/runs/{runId}/debug.
func (p *parts) debugRun(w http.ResponseWriter, r *http.Request) {
	answerDebug(p, w, r, func(who authz.Principal) (reads.RunDebug, error) {
		return p.control.DebugRun(r.Context(), who, r.PathValue("runId"))
	})
}

// debugStepLogs serves GET /engine/runs/{runId}/steps/{stepId}/logs.
func (p *parts) debugStepLogs(w http.ResponseWriter, r *http.Request) {
	answerDebug(p, w, r, func(who authz.Principal) (reads.StepLogPointers, error) {
		return p.control.DebugStepLogs(r.Context(), who, r.PathValue("runId"), r.PathValue("stepId"))
	})
}

// inspectRun serves POST /engine/runs/{runId}/inspect.
func (p *parts) inspectRun(w http.ResponseWriter, r *http.Request) {
	answerDebug(p, w, r, func(who authz.Principal) (reads.RunInspection, error) {
		return p.control.InspectRun(r.Context(), who, r.PathValue("runId"))
	})
}

// answerDebug responds with what ask returns to the caller as JSON, which caches must not keep. Only callers with the
// action Debug get more than a refusal.
func answerDebug[T any](p *parts, w http.ResponseWriter, r *http.Request, ask func(authz.Principal) (T, error)) {
	var out T
	who, err := p.callers.Caller(r)
	if err == nil {
		out, err = ask(who)
	}
	if !refusedHTTP(w, err) {
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(out)
	}
}

// unknownEngine answers addresses under /engine/ that do not exist. The page of the UI would look like a success.
func (p *parts) unknownEngine(w http.ResponseWriter, r *http.Request) {
	_, err := p.callers.Caller(r)
	if err == nil {
		err = control.Refuse(run.CodeNotFound, "There is nothing at this address.")
	}
	refusedHTTP(w, err)
}

// refusedHTTP responds with the status, code and message of err, and reports whether err is not nil. An error that is
// not a *control.Error becomes 503 without a body.
func refusedHTTP(w http.ResponseWriter, err error) bool {
	w.Header().Set("Content-Type", "application/json")
	var refused *control.Error
	switch {
	case errors.As(err, &refused):
		if refused.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((refused.RetryAfter+time.Second-1)/time.Second)))
		}
		w.WriteHeader(httpStatus(refused.Code))
		body := map[string]any{"code": refused.Code, "message": refused.Message}
		if refused.Artifact != nil {
			body["artifact"] = refused.Artifact
		}
		_ = json.NewEncoder(w).Encode(body)
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return err != nil
}

func httpStatus(code run.Code) int {
	info, _ := code.Info()
	return cmp.Or(info.HTTPStatus, http.StatusInternalServerError)
}

// ErrNotHistory is the error of ReplayWorkflow for a file that is not a workflow history.
var ErrNotHistory = temporal.ErrNotHistory

// HistoryMismatchError describes where the workflow code of this program decides differently from a history.
type HistoryMismatchError = temporal.MismatchError

// ErrPayloadKey is the error of ReplayWorkflow for a history that is encrypted with a key that it was not given.
var ErrPayloadKey = temporal.ErrPayloadKey

// ReplayWorkflow replays a history with the workflow code of this program, so that a change that would break running
// workflows is found before a deployment (contract T117). The files contain the keys of an encrypted history; their
// names may be empty.
func ReplayWorkflow(history io.Reader, payloadKeysFile, dispatchKeysFile string) (temporal.Replayed, error) {
	cfg := config.Config{Encryption: config.Encryption{
		PayloadKeysFile: payloadKeysFile, DispatchKeysFile: dispatchKeysFile,
	}}
	payloads, err := connect.Payloads(&cfg, slog.New(slog.DiscardHandler), false)
	if err != nil {
		return temporal.Replayed{}, err
	}
	return temporal.Replay(history, payloads)
}
