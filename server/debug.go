package server

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
)

// debugRun answers GET /engine/runs/{runId}/debug for those with the action Debug.
func (p *parts) debugRun(w http.ResponseWriter, r *http.Request) {
	var out reads.RunDebug
	who, err := p.callers.Caller(r)
	if err == nil {
		out, err = p.control.DebugRun(r.Context(), who, r.PathValue("runId"))
	}
	if !refusedHTTP(w, err) {
		_ = json.NewEncoder(w).Encode(out)
	}
}

// refusedHTTP answers with the status and the words of an error, if there is one.
func refusedHTTP(w http.ResponseWriter, err error) bool {
	w.Header().Set("Content-Type", "application/json")
	var refused *control.Error
	switch {
	case errors.As(err, &refused):
		if refused.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((refused.RetryAfter+time.Second-1)/time.Second)))
		}
		w.WriteHeader(httpStatus(refused.Code))
		_ = json.NewEncoder(w).Encode(map[string]any{"code": refused.Code, "message": refused.Message})
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return err != nil
}

func httpStatus(code run.Code) int {
	for _, c := range run.CodeTable() {
		if c.Code == code && c.HTTPStatus != 0 {
			return c.HTTPStatus
		}
	}
	return http.StatusInternalServerError
}

// ErrNotHistory is ReplayWorkflow's word for a file that is no history.
var ErrNotHistory = temporal.ErrNotHistory

// HistoryMismatchError says where this program decides otherwise than a history says.
type HistoryMismatchError = temporal.MismatchError

// ErrPayloadKey is ReplayWorkflow's word for a history that is encrypted by a key that it was not given.
var ErrPayloadKey = temporal.ErrPayloadKey

// ReplayWorkflow runs the workflow of this program over a history (T117). The keys of an encrypted one are in files;
// the names of files may be empty.
func ReplayWorkflow(history io.Reader, payloadKeysFile, dispatchKeysFile string) (temporal.Replayed, error) {
	cfg := config.Config{Encryption: config.Encryption{PayloadKeysFile: payloadKeysFile, DispatchKeysFile: dispatchKeysFile}}
	payloads, err := newPayloads(&cfg, slog.New(slog.DiscardHandler), false)
	if err != nil {
		return temporal.Replayed{}, err
	}
	return temporal.Replay(history, payloads)
}
