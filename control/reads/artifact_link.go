package reads

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ActionLinkArtifact is the action in audit rows about links of artifacts.
const ActionLinkArtifact = "LINK_ARTIFACT"

// Limits of links of artifacts.
const (
	linkLife       = 5 * time.Minute
	linksPerMinute = 60         // of one principal
	maxLinkToken   = 8 << 10    // bytes
	linkPurpose    = "artifact" // of seals
)

// ArtifactLink downloads one artifact for everybody who has it. A download that has begun may take longer.
type ArtifactLink struct {
	Path      string // on every server: the path of the artifact with the token
	ExpiresAt time.Time
}

// linkedArtifact is the signed content of a link: one artifact, and the credential by whose rights it is read.
type linkedArtifact struct {
	RunID       string    `json:"r"`
	Path        string    `json:"a"`
	ExpiresAt   time.Time `json:"e"`
	ID          string    `json:"p"`
	TenantID    string    `json:"t"`
	TokenID     string    `json:"k,omitempty"`
	SessionID   string    `json:"s,omitempty"`
	Provider    string    `json:"o,omitempty"`
	Groups      []string  `json:"g,omitempty"`
	CallerUntil time.Time `json:"u,omitzero"`
}

// LinkArtifact makes a link that downloads an artifact for five minutes without a token. It works only as long as the
// caller's own token or session, account and right to read the run exist. Each call is audited. No row exists for a
// link. Errors: NOT_FOUND, ARTIFACT_REMOVED for an expired artifact, BAD_USER_INPUT, REQUEST_RATE_LIMITED, and
// NOT_SUPPORTED without keys.
func (s *ArtifactReader) LinkArtifact(ctx context.Context, p authz.Principal, runID, uri, requestID string) (
	ArtifactLink, error) {
	row := store.AuditRow{Action: ActionLinkArtifact, RunID: runID, RequestID: requestID}
	vs := control.CheckID(nil, "requestId", requestID)
	place, ok := PlaceOf(p.TenantID, runID, uri)
	if !ok {
		// Whether such a run or artifact exists must not show, so this is the error for one that does not.
		if _, err := s.rights.GetVisible(ctx, p, ActionLinkArtifact, runID); err != nil {
			return ArtifactLink{}, err
		}
		vs = append(vs, plan.Violation{Path: "uri", Code: plan.CodeInvalid,
			Message: "is not the URI of an artifact that dvt serves for this run"})
	}
	if len(vs) > 0 {
		return ArtifactLink{}, control.BadInput(vs)
	}
	a, err := s.FindArtifact(ctx, p, runID, place.Path)
	if err == nil {
		err = a.checkExpiry()
	}
	if err != nil {
		return ArtifactLink{}, err
	}
	if m, known := s.linked.Add(p.TenantID + "/" + p.ID); !known || m.N > linksPerMinute {
		return ArtifactLink{}, s.rights.AuditRejected(ctx, p, row, control.Later(control.Refuse(run.CodeRequestRate,
			"You made %d links within a minute, which is the limit. Try again in a minute.", linksPerMinute), time.Minute))
	}
	link := linkedArtifact{RunID: runID, Path: place.Path, ExpiresAt: s.rights.Now().Add(linkLife).UTC().
		Truncate(time.Second), ID: p.ID, TenantID: p.TenantID, TokenID: p.TokenID, SessionID: p.SessionID,
		Provider: p.Provider, Groups: p.Groups, CallerUntil: p.ExpiresAt}
	token := s.linkToken(link)
	if token == "" || len(token) > maxLinkToken {
		return ArtifactLink{}, control.Refuse(run.CodeNotSupported,
			"This server makes no links: it has no ticket-keys, or you belong to too many groups.")
	}
	detail, err := json.Marshal(map[string]any{"uri": uri, "expiresAt": link.ExpiresAt})
	if err != nil {
		return ArtifactLink{}, control.Translate(err)
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(detail))
	if err := s.rights.Store.Audit(ctx, row); err != nil {
		return ArtifactLink{}, control.Translate(err)
	}
	return ArtifactLink{Path: place.DownloadPath(runID) + "?link=" + token, ExpiresAt: link.ExpiresAt}, nil
}

// FindLinked finds the artifact of a link at the path where it was used. The caller of the link becomes the principal,
// with the rights that it has now. Error: NOT_FOUND, the same for every link that does not work; that of a store that
// does not answer; UNAVAILABLE.
func (s *ArtifactReader) FindLinked(ctx context.Context, runID, path, token string) (Artifact, authz.Principal,
	error) {
	unknown := control.Refuse(run.CodeNotFound, "This link has expired, was revoked, or never existed.")
	link, ok := s.parseLink(token)
	if !ok || link.RunID != runID || link.Path != path || !s.rights.Now().Before(link.ExpiresAt) {
		return Artifact{}, authz.Principal{}, unknown
	}
	p := authz.Principal{ID: link.ID, TenantID: link.TenantID, TokenID: link.TokenID, SessionID: link.SessionID,
		Provider: link.Provider, Groups: link.Groups, ExpiresAt: link.CallerUntil, Via: authz.ViaHTTP}
	alive, err := s.rights.Authz.IsAlive(p)
	if err != nil {
		return Artifact{}, p, control.Translate(err)
	}
	if !alive {
		return Artifact{}, p, unknown
	}
	a, err := s.FindArtifact(ctx, p, runID, path)
	if refused := (*control.Error)(nil); errors.As(err, &refused) && (refused.Code == run.CodeNotFound ||
		refused.Code == run.CodeForbidden) {
		err = unknown
	}
	return a, p, err
}

// linkToken returns the token of a link, or "" without a key.
func (s *ArtifactReader) linkToken(link linkedArtifact) string {
	text, err := json.Marshal(link)
	if err != nil || s.seals == nil {
		return ""
	}
	seal := s.seals.Seal(linkPurpose, string(text))
	if seal == "" {
		return ""
	}
	return fmt.Sprintf("%s.%s", linkEncoding.EncodeToString(text), seal)
}

// linkEncoding refuses a second spelling of the same bytes.
var linkEncoding = base64.RawURLEncoding.Strict()

// parseLink returns the content of a token that this installation made.
func (s *ArtifactReader) parseLink(token string) (link linkedArtifact, ok bool) {
	if s.seals == nil || len(token) > maxLinkToken {
		return link, false
	}
	encoded, seal, _ := strings.Cut(token, ".")
	text, err := linkEncoding.DecodeString(encoded)
	if err != nil || !s.seals.VerifySeal(seal, linkPurpose, string(text)) {
		return link, false
	}
	return link, json.Unmarshal(text, &link) == nil
}
