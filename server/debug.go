package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
)

// debugRun answers GET /engine/runs/{runId}/debug for those with the action Debug.
func (p *parts) debugRun(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.Header().Set("Content-Type", "application/json")
	who, err := p.authz.Authenticate(token)
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]any{"code": run.CodeUnauthenticated, "message": "The call carries no valid token."})
		return
	}
	out, err := p.control.DebugRun(r.Context(), who, r.PathValue("runId"))
	var refused *control.Error
	switch {
	case errors.As(err, &refused):
		w.WriteHeader(httpStatus(refused.Code))
		_ = json.NewEncoder(w).Encode(map[string]any{"code": refused.Code, "message": refused.Message})
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		_ = json.NewEncoder(w).Encode(out)
	}
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

// ReplayWorkflow runs the workflow of this program over a history (T117).
func ReplayWorkflow(history io.Reader) (temporal.Replayed, error) { return temporal.Replay(history) }
