package runs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ActionShareRun is the action in audit rows about share links.
const ActionShareRun = "SHARE_RUN"

// Limits of share links.
const (
	sharesPerMinute = 10               // of one principal
	shareQuantum    = 15 * time.Minute // links of one run within it are the same
	maxShareToken   = 512              // bytes
	sharedFor       = 5 * time.Second  // how long an answer may be repeated
	maxShared       = 1024             // answers that are kept
	shareReads      = 4                // reads of the store at once
	shareReadTime   = 5 * time.Second
	sharePurpose    = "share" // of seals
)

// ErrNotShared is the error of every link that shows nothing: unknown, expired or revoked. It does not say which.
var ErrNotShared = errors.New("this link shows nothing")

// Sealer makes and verifies proofs that this installation wrote a text.
type Sealer interface {
	// Seal returns the proof, or "" when there is no key.
	Seal(purpose, text string) string
	VerifySeal(seal, purpose, text string) bool
}

// ShareStore reads runs.
type ShareStore interface {
	Get(ctx context.Context, runID string) (store.Run, error)
}

// ShareLink is a link that shows the status of a run to everybody who has it.
type ShareLink struct {
	Token     string
	ExpiresAt time.Time
}

// SharedRun is everything that a share link shows of a run.
type SharedRun struct {
	RunID, PlanID, PlanVersion string
	Status                     run.Status
	Substatus                  run.Substatus
	StartedAt, EndedAt         *time.Time
	FailedSteps                int
	AsOf                       time.Time
}

// Sharer makes share links and reads what they show. A link is a signed text with the run, the version of the tenant's
// setting and the expiry; no row exists for it (decision 77). It is safe for concurrent use.
type Sharer struct {
	rights *control.Rights
	views  *Views
	store  ShareStore
	modes  *admission.Modes
	seals  Sealer
	load   shareLoad
}

// shareLoad bounds what links cost.
type shareLoad struct {
	made    *control.PerMinuteLimiter     // by principal
	reading chan struct{}                 // has a value for each read of the store
	shown   *lru.Cache[string, SharedRun] // by run
}

// NewSharer makes a Sharer. Without seals it makes no links.
func NewSharer(rights *control.Rights, views *Views, store ShareStore, modes *admission.Modes, seals Sealer) *Sharer {
	return &Sharer{rights: rights, views: views, store: store, modes: modes, seals: seals, load: shareLoad{
		made: control.NewPerMinuteLimiter(rights.Now), reading: make(chan struct{}, shareReads),
		shown: control.NewLRU[SharedRun](maxShared)}}
}

// ShareRun makes a link of a run that p may read. Links of one run that are made within a quarter of an hour are the
// same. Each call is audited. Errors: NOT_FOUND, FORBIDDEN while the tenant does not permit links,
// REQUEST_RATE_LIMITED, BAD_USER_INPUT.
func (s *Sharer) ShareRun(ctx context.Context, p authz.Principal, runID, requestID string) (ShareLink, error) {
	row := store.AuditRow{Action: ActionShareRun, RunID: runID, RequestID: requestID}
	r, err := s.rights.GetVisible(ctx, p, ActionShareRun, runID)
	if err != nil {
		return ShareLink{}, err
	}
	if vs := control.CheckID(nil, "requestId", requestID); len(vs) > 0 {
		return ShareLink{}, control.BadInput(vs)
	}
	rule := s.modes.ShareRule(r.TenantID)
	if rule.Hours == 0 {
		e := control.Refuse(run.CodeForbidden,
			"This tenant does not permit links that show a status without sign-in. An Admin can permit them.")
		e.Denial = &control.Denial{Action: authz.SetPolicy, WhoCould: s.rights.Authz.WhoCould(authz.SetPolicy,
			authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"})}
		return ShareLink{}, s.rights.AuditRejected(ctx, p, row, e)
	}
	if m, known := s.load.made.Add(p.TenantID + "/" + p.ID); !known || m.N > sharesPerMinute {
		return ShareLink{}, s.rights.AuditRejected(ctx, p, row, control.Later(control.Refuse(run.CodeRequestRate,
			"You made %d links within a minute, which is the limit. Try again in a minute.", sharesPerMinute), time.Minute))
	}
	// Rounded up, because nobody expects a link of one hour to end after 45 minutes.
	expires := s.rights.Now().Add(time.Duration(rule.Hours)*time.Hour + shareQuantum - time.Nanosecond).
		Truncate(shareQuantum)
	token := s.token(r.RunID, rule.Version, expires)
	if token == "" {
		return ShareLink{}, control.Refuse(run.CodeNotSupported, "This server has no ticket-keys, so it makes no links.")
	}
	s.rights.Stamp(p, &row, "ACCEPTED", fmt.Sprintf(`{"expiresAt":%q}`, expires.UTC().Format(time.RFC3339)))
	if err := s.rights.Store.Audit(ctx, row); err != nil {
		return ShareLink{}, control.Translate(err)
	}
	return ShareLink{Token: token, ExpiresAt: expires}, nil
}

// Shared returns what the link of a token shows now, at most 5 seconds old. It does no I/O for a token that this
// installation did not make. Error: ErrNotShared, or that of a store that does not answer.
func (s *Sharer) Shared(ctx context.Context, token string) (SharedRun, error) {
	runID, version, expires, ok := s.parse(token)
	if !ok || !s.rights.Now().Before(expires) {
		return SharedRun{}, ErrNotShared
	}
	ctx, cancel := context.WithTimeout(ctx, shareReadTime)
	defer cancel()
	r, err := s.store.Get(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return SharedRun{}, ErrNotShared
	}
	if err != nil {
		return SharedRun{}, control.Translate(err)
	}
	if rule := s.modes.ShareRule(r.TenantID); rule.Hours == 0 || rule.Version != version {
		return SharedRun{}, ErrNotShared
	}
	return s.read(ctx, r)
}

// read returns the state of a run, or the one of up to sharedFor ago.
func (s *Sharer) read(ctx context.Context, r store.Run) (SharedRun, error) {
	select {
	case s.load.reading <- struct{}{}:
		defer func() { <-s.load.reading }()
	case <-ctx.Done():
		return SharedRun{}, control.Translate(ctx.Err())
	}
	now := s.rights.Now()
	if known, ok := s.load.shown.Get(r.RunID); ok && now.Sub(known.AsOf) < sharedFor {
		return known, nil
	}
	v, _, err := s.views.Load(ctx, r)
	if err != nil {
		return SharedRun{}, err
	}
	h := v.State.Header
	out := SharedRun{RunID: r.RunID, PlanID: r.PlanID, PlanVersion: r.PlanVersion, Status: h.Status,
		Substatus: h.Substatus(), StartedAt: h.StartedAt, EndedAt: h.CompletedAt, FailedSteps: h.Counts.Failed, AsOf: now}
	s.load.shown.Add(r.RunID, out)
	return out, nil
}

// token returns the token of a link, or "" without a key.
func (s *Sharer) token(runID string, version int64, expires time.Time) string {
	text := fmt.Sprintf("%d|%d|%s", version, expires.Unix(), runID)
	seal := s.seals.Seal(sharePurpose, text)
	if seal == "" {
		return ""
	}
	return shareEncoding.EncodeToString([]byte(text)) + "." + seal
}

// shareEncoding refuses a second spelling of the same bytes.
var shareEncoding = base64.RawURLEncoding.Strict()

// parse returns the content of a token that this installation made.
func (s *Sharer) parse(token string) (runID string, version int64, expires time.Time, ok bool) {
	if len(token) > maxShareToken {
		return "", 0, time.Time{}, false
	}
	encoded, seal, _ := strings.Cut(token, ".")
	text, err := shareEncoding.DecodeString(encoded)
	if err != nil || !s.seals.VerifySeal(seal, sharePurpose, string(text)) {
		return "", 0, time.Time{}, false
	}
	parts := strings.SplitN(string(text), "|", 3)
	if len(parts) != 3 {
		return "", 0, time.Time{}, false
	}
	version, versionErr := strconv.ParseInt(parts[0], 10, 64)
	seconds, secondsErr := strconv.ParseInt(parts[1], 10, 64)
	return parts[2], version, time.Unix(seconds, 0), versionErr == nil && secondsErr == nil
}
