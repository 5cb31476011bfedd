package remote

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"

	"github.com/dvt-engine/dvt/engine"
)

// Server is what the handler stands on.
type Server struct {
	Journal engine.Journal
	// Tenant reads the tenant of a run: store.ErrNotFound for an unknown one.
	Tenant func(ctx context.Context, runID string) (string, error)
	// Authenticate returns which tenants the worker with this token may serve, or an error.
	Authenticate func(token string) (mayServe func(tenantID string) bool, err error)
	Logger       *slog.Logger
}

// ServeHTTP answers one call. A run of a tenant that the worker does not serve
// is not found.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	mayServe, err := s.Authenticate(token)
	if err != nil {
		answer(w, http.StatusUnauthorized, response{Code: run.CodeUnauthenticated})
		return
	}
	var in request
	err = json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxRequest)).Decode(&in)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		answer(w, http.StatusRequestEntityTooLarge, response{Code: run.CodeBadInput})
		return
	}
	runID, one := in.runID()
	if r.Method != http.MethodPost || err != nil || !one {
		answer(w, http.StatusBadRequest, response{Code: run.CodeBadInput})
		return
	}
	out, err := s.serve(r.Context(), runID, in, mayServe)
	full, overloaded := errors.AsType[*store.OverloadedError](err)
	switch {
	case err == nil:
		answer(w, http.StatusOK, out)
	case errors.Is(err, store.ErrNotFound):
		answer(w, http.StatusNotFound, response{Code: run.CodeNotFound})
	case errors.Is(err, run.ErrSchema):
		answer(w, http.StatusUnprocessableEntity, response{Code: run.CodeSchemaValidation})
	case overloaded:
		w.Header().Set("Retry-After", strconv.FormatInt(int64((full.RetryAfter+time.Second-1)/time.Second), 10))
		answer(w, http.StatusServiceUnavailable, response{Code: run.CodeStoreOverloaded, RetryAfterMS: full.RetryAfter.Milliseconds()})
	default:
		s.Logger.WarnContext(r.Context(), "journal", slog.Any("error", err))
		answer(w, http.StatusServiceUnavailable, response{Code: run.CodeStoreUnavailable})
	}
}

func (s *Server) serve(ctx context.Context, runID string, in request, mayServe func(string) bool) (response, error) {
	tenant, err := s.Tenant(ctx, runID)
	if err != nil {
		return response{}, err
	}
	if !mayServe(tenant) {
		return response{}, store.ErrNotFound
	}
	if in.Evidence != nil {
		return response{}, s.Journal.Evidence(ctx, *in.Evidence)
	}
	if in.Compensation != nil {
		hook, err := s.Journal.Compensation(ctx, runID, in.Compensation.StepID)
		return response{Hook: &hook}, err
	}
	begun, err := s.Journal.Begin(ctx, *in.Begin)
	if err == nil && begun.Verdict == store.BeginThrottled && !in.Throttles {
		return response{}, &store.OverloadedError{RetryAfter: begun.RetryAfter}
	}
	return response{Begun: &begun}, err
}

func answer(w http.ResponseWriter, status int, out response) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // a worker that is gone asks again
}
