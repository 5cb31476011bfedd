package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// MaxCalls is the number of calls of one token that are served at once. It bounds the memory that a worker can make a
// server use.
const MaxCalls = 64

// Bounds of large calls, with a body above MaxCall or of unknown length. Each holds its body in memory several times.
const (
	MaxLarge      = 8           // served at once, of all tokens together
	MaxLargeOfOne = 2           // served at once, of one token
	largeWithin   = time.Minute // to read the whole body, so that a slow caller does not hold a slot
	// slowestStream is the rate, in bytes a second, at which a worker must send the bytes of an artifact.
	slowestStream = 1 << 20
)

// busyFor is the pause that the server asks of a worker that has reached its bound of calls.
const busyFor = 500 * time.Millisecond

// Server is the HTTP handler of the Journal. Set Authenticate and Logger, and do not change the fields once it serves.
// ServeHTTP is safe for concurrent use.
type Server struct {
	// Authenticate returns the Journal of the worker with this token, or an error.
	Authenticate func(token string) (engine.AttemptJournal, error)
	// ClientCertificates requires that a call comes over TLS with a certificate that the listener verified.
	ClientCertificates bool
	Logger             *slog.Logger
	// Standby answers every call with STANDBY, because this site changes nothing.
	Standby bool
	// Unknown is called for each call with a token that no account has, also concurrently; may be nil.
	Unknown func(ctx context.Context, remoteAddress string)

	mu      sync.Mutex
	open    map[string]int // calls by token
	large   map[string]int // large calls by token
	logged  time.Time      // time of the last line of logUnknown
	unknown int            // calls with unknown tokens since then
}

// unknownEvery is the time between two lines about unknown tokens.
const unknownEvery = time.Minute

// logUnknown logs the number of calls with unknown tokens since the last line, at most once in unknownEvery.
func (s *Server) logUnknown(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown++
	if now := time.Now(); now.Sub(s.logged) >= unknownEvery {
		s.Logger.WarnContext(r.Context(), "a worker calls the journal with a token that no account has; it can begin no step",
			slog.String("address", r.RemoteAddr), slog.Int("calls", s.unknown))
		s.logged, s.unknown = now, 0
	}
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.ClientCertificates && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		answer(w, http.StatusUnauthorized, response{Code: run.CodeUnauthenticated})
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	journal, err := s.Authenticate(token)
	if err != nil {
		s.logUnknown(r)
		if token != "" && s.Unknown != nil {
			s.Unknown(r.Context(), r.RemoteAddr)
		}
		answer(w, http.StatusUnauthorized, response{Code: run.CodeUnauthenticated})
		return
	}
	if s.Standby {
		retryLater(w, http.StatusServiceUnavailable, run.CodeStandby, busyFor)
		return
	}
	if !s.enter(token) {
		retryLater(w, http.StatusTooManyRequests, run.CodeTooManyCalls, busyFor)
		return
	}
	defer s.leave(token)
	call, known := calls[strings.TrimPrefix(r.URL.Path, Path+"/")]
	if r.Method != http.MethodPost || !known {
		answer(w, http.StatusBadRequest, response{Code: run.CodeBadInput})
		return
	}
	within := largeWithin
	if call.stream {
		within += time.Duration(max(r.ContentLength, 0)/slowestStream) * time.Second
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within + largeWithin))
	}
	if r.ContentLength < 0 || r.ContentLength > MaxCall {
		if !s.enterLarge(token) {
			retryLater(w, http.StatusTooManyRequests, run.CodeTooManyCalls, busyFor)
			return
		}
		defer s.leaveLarge(token)
		// The error is ignored: the recorder of a test has no connection.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
	}
	out, err := call.serve(r.Context(), journal, http.MaxBytesReader(w, r.Body, call.most))
	if err != nil {
		s.refuse(r.Context(), w, err)
		return
	}
	answer(w, http.StatusOK, out)
}

// call describes one call of a Journal.
type call struct {
	most   int64 // maximum size of its body in bytes
	stream bool  // the body is not held in memory
	serve  func(context.Context, engine.AttemptJournal, io.Reader) (response, error)
}

var calls = map[string]call{ //nolint:gochecknoglobals // a table
	callBegin: {MaxCall, false, func(ctx context.Context, j engine.AttemptJournal, in io.Reader) (response, error) {
		return serve(ctx, in, j.StartAttempt, func(b engine.AttemptStarted) response { return response{Begun: &b} })
	}},
	callCompensation: {MaxCall, false, func(ctx context.Context, j engine.AttemptJournal, in io.Reader) (response, error) {
		return serve(ctx, in, j.Compensation, func(h engine.Hook) response { return response{Hook: &h} })
	}},
	callEnd: {MaxCall, false, func(ctx context.Context, j engine.AttemptJournal, in io.Reader) (response, error) {
		return serve(ctx, in, j.End, func(e engine.Receipt) response { return response{Ended: &e} })
	}},
	callSecretReads: {MaxCall, false, func(ctx context.Context, j engine.AttemptJournal, in io.Reader) (response, error) {
		return serve(ctx, in, func(ctx context.Context, r engine.SecretReads) (struct{}, error) {
			return struct{}{}, j.SecretReads(ctx, r)
		}, func(struct{}) response { return response{} })
	}},
	callSecretOrders: {MaxCall, false, func(ctx context.Context, j engine.AttemptJournal, in io.Reader) (response, error) {
		return serve(ctx, in, func(ctx context.Context, p engine.SecretPoll) ([]engine.SecretOrder, error) {
			dispatcher, ok := j.(engine.SecretDispatcher)
			if !ok {
				return nil, nil
			}
			return dispatcher.SecretOrders(ctx, p)
		}, func(orders []engine.SecretOrder) response { return response{SecretOrders: orders} })
	}},
	callState: {MaxCall, false, func(ctx context.Context, j engine.AttemptJournal, in io.Reader) (response, error) {
		return serve(ctx, in, func(ctx context.Context, r engine.StateRead) ([]byte, error) {
			reader, ok := j.(engine.StateReader)
			if !ok {
				return nil, store.ErrNotFound
			}
			return reader.ReadState(ctx, r)
		}, func(manifest []byte) response { return response{State: manifest} })
	}},
	callCheck: {MaxReport, false, func(ctx context.Context, j engine.AttemptJournal, in io.Reader) (response, error) {
		return serve(ctx, in, func(ctx context.Context, c check) (engine.WorkerOrder, error) {
			reporter, ok := j.(engine.WorkerReporter)
			if c.Report == nil || !ok {
				return engine.WorkerOrder{}, nil
			}
			return reporter.Report(ctx, *c.Report)
		}, func(o engine.WorkerOrder) response { return response{Order: o} })
	}},
	callArtifact: {MaxArtifact + maxArtifactHead, true, serveArtifact},
	callEvidence: {MaxEvidence, false, func(ctx context.Context, j engine.AttemptJournal, in io.Reader) (response, error) {
		return serve(ctx, in, func(ctx context.Context, e engine.Evidence) (struct{}, error) {
			return struct{}{}, j.Evidence(ctx, e)
		}, func(struct{}) response { return response{} })
	}},
}

// errBody reports that a body is not the JSON of its call.
var errBody = errors.New("remote: the body cannot be read")

// serveArtifact passes the bytes that follow the first line to the Journal as it reads them.
func serveArtifact(ctx context.Context, j engine.AttemptJournal, body io.Reader) (response, error) {
	in := bufio.NewReaderSize(body, maxArtifactHead)
	head, err := in.ReadSlice('\n')
	if err != nil {
		return response{}, errors.Join(errBody, err)
	}
	var e engine.Evidence
	if err := json.Unmarshal(head, &e); err != nil {
		return response{}, errors.Join(errBody, err)
	}
	if e.Artifact == nil || len(e.Artifact.Body) > 0 || len(e.Lines) > 0 || e.Try != nil || e.Nodes != nil {
		return response{}, errBody
	}
	opened := false
	e.Artifact.Open = func() (io.ReadCloser, error) {
		if opened {
			return nil, errors.New("remote: the bytes of an artifact are read once")
		}
		opened = true
		return io.NopCloser(in), nil
	}
	return response{}, j.Evidence(ctx, e)
}

func serve[In, Out any](ctx context.Context, body io.Reader, f func(context.Context, In) (Out, error),
	as func(Out) response) (response, error) {
	var in In
	if err := json.NewDecoder(body).Decode(&in); err != nil {
		return response{}, errors.Join(errBody, err)
	}
	out, err := f(ctx, in)
	return as(out), err
}

// refuse answers a call with the status and code for an error. The text of an unexpected error stays in the server's
// log.
func (s *Server) refuse(ctx context.Context, w http.ResponseWriter, err error) {
	_, large := errors.AsType[*http.MaxBytesError](err)
	schema, _ := errors.AsType[*run.SchemaError](err)
	full, overloaded := errors.AsType[*store.OverloadedError](err)
	switch {
	case large:
		answer(w, http.StatusRequestEntityTooLarge, response{Code: run.CodeBadInput})
	case errors.Is(err, errBody):
		answer(w, http.StatusBadRequest, response{Code: run.CodeBadInput})
	case errors.Is(err, store.ErrNotFound):
		answer(w, http.StatusNotFound, response{Code: run.CodeNotFound})
	case errors.Is(err, engine.ErrRefused):
		answer(w, http.StatusForbidden, response{
			Code: run.CodeTicketRefused, Reason: reasonOf(err), Denied: errors.Is(err, engine.ErrDenied),
		})
	case schema != nil:
		answer(w, http.StatusUnprocessableEntity, response{Code: run.CodeSchemaValidation, Violations: schema.Violations})
	case errors.Is(err, run.ErrSchema):
		answer(w, http.StatusUnprocessableEntity, response{Code: run.CodeSchemaValidation})
	case errors.Is(err, engine.ErrUnanswered):
		answer(w, http.StatusGatewayTimeout, response{Code: run.CodeWriteBudget})
	case overloaded:
		retryLater(w, http.StatusServiceUnavailable, run.CodeStoreOverloaded, full.RetryAfter)
	default:
		s.Logger.WarnContext(ctx, "a call of a worker to the journal failed; the worker repeats it", slog.Any("error", err))
		answer(w, http.StatusServiceUnavailable, response{Code: run.CodeStoreUnavailable})
	}
}

func retryLater(w http.ResponseWriter, status int, code run.Code, after time.Duration) {
	w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	answer(w, status, response{Code: code, RetryAfterMS: after.Milliseconds()})
}

func answer(w http.ResponseWriter, status int, out response) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // a worker that lost the connection repeats its call
}

// enter counts a call of a token, or returns false when the token has MaxCalls open calls.
func (s *Server) enter(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]int{}
	}
	if s.open[token] >= MaxCalls {
		return false
	}
	s.open[token]++
	return true
}

func (s *Server) leave(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[token]--; s.open[token] == 0 {
		delete(s.open, token)
	}
}

// enterLarge takes a slot for a large call, or returns false when none is free.
func (s *Server) enterLarge(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, n := range s.large {
		total += n
	}
	if total >= MaxLarge || s.large[token] >= MaxLargeOfOne {
		return false
	}
	if s.large == nil {
		s.large = map[string]int{}
	}
	s.large[token]++
	return true
}

func (s *Server) leaveLarge(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.large[token]--; s.large[token] == 0 {
		delete(s.large, token)
	}
}
