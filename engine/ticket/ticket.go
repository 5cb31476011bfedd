// Package ticket makes and checks the proofs that tie a worker's calls to the dispatch that it was given: a ticket
// for each dispatch, made where the interpreter decides it, and a key for each execution, made by the Journal when the
// execution begins. Both are MACs under keys that control workers and servers share and that no data worker and no engine
// has. The package does no I/O and reads no clock.
package ticket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Errors of Check. Both mean that nothing may be done by this ticket.
var (
	ErrForged  = errors.New("ticket: not made by this installation")
	ErrExpired = errors.New("ticket: expired")
)

// Life is how long a ticket is good from when it is made: longer than a step waits for a worker in any ordinary
// backlog. A dispatch whose ticket expired is dispatched again with a new one and has lost no attempt.
const Life = 24 * time.Hour

// Dispatch is what a ticket is for.
type Dispatch struct {
	RunID          string    `json:"run"`
	StepID         string    `json:"step"`
	LogicalAttempt int       `json:"attempt"` // of a hook: the attempt that succeeded
	N              int       `json:"n"`       // dispatch ordinal
	Queue          string    `json:"queue"`
	Hook           bool      `json:"hook,omitempty"`        // the compensation of the step
	PassFailing    bool      `json:"passFailing,omitempty"` // store.Begin.PassFailing
	SignalID       string    `json:"signal,omitempty"`      // store.Begin.SignalID
	Expires        time.Time `json:"expires"`
}

// Execution is what a key is for.
type Execution struct {
	RunID, StepID                    string
	LogicalAttempt, N, EngineAttempt int
	Hook                             bool
	StartedSeq                       run.Seq // of the attempt's StepStarted; 0 of a hook
}

// Keys sign tickets and keys of executions. The zero value signs nothing and knows nothing. It is immutable and safe
// for concurrent use; its secrets are never printed.
type Keys struct{ list []secret }

type secret struct {
	id string
	// bytes is a function because fmt would print a slice where it cannot call String.
	bytes func() []byte
}

// minSecret is as many bytes as the hash has.
const minSecret = sha256.Size

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// ParseKeys reads keys written as id:secret, the secret in base64 of at least 32 bytes. The first one signs, the
// others are still accepted: to change a key, put the new one first, and drop the old one when the runs that were open then are over. Errors never show a secret.
func ParseKeys(list []string) (Keys, error) {
	var out Keys
	known := map[string]bool{}
	for i, text := range list {
		id, encoded, ok := strings.Cut(strings.TrimSpace(text), ":")
		b, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case !ok || !keyID.MatchString(id):
			return Keys{}, fmt.Errorf("key number %d must look like id:secret, the id 1 to 32 characters of A-Z a-z 0-9 _ -", i+1)
		case err != nil || len(b) < minSecret:
			return Keys{}, fmt.Errorf("the secret of key %s must be base64 of at least %d bytes: make one with `openssl rand -base64 32`", id, minSecret)
		case known[id]:
			return Keys{}, fmt.Errorf("key %s is given twice", id)
		}
		known[id] = true
		out.list = append(out.list, secret{id: id, bytes: func() []byte { return b }})
	}
	return out, nil
}

// Empty reports whether there is no key.
func (k Keys) Empty() bool { return len(k.list) == 0 }

// String hides the secrets.
func (k Keys) String() string {
	ids := make([]string, len(k.list))
	for i, s := range k.list {
		ids[i] = s.id + ":***"
	}
	return strings.Join(ids, " ")
}

// LogValue hides the secrets.
func (k Keys) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Ticket makes the ticket of a dispatch, empty when there is no key. The same dispatch gives the same ticket.
func (k Keys) Ticket(d Dispatch) string {
	if k.Empty() {
		return ""
	}
	d.Expires = d.Expires.UTC().Truncate(time.Second)
	body, err := json.Marshal(d)
	if err != nil {
		return "" // a year that JSON cannot write
	}
	text := base64.RawURLEncoding.EncodeToString(body)
	return k.list[0].id + "." + text + "." + k.list[0].mac("ticket", text)
}

// Check reads a ticket. ErrForged, or ErrExpired together with what it was for.
func (k Keys) Check(ticket string, now time.Time) (d Dispatch, err error) {
	id, rest, _ := strings.Cut(ticket, ".")
	text, mac, _ := strings.Cut(rest, ".")
	if !k.signed(id, mac, "ticket", text) {
		return Dispatch{}, ErrForged
	}
	body, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(body, &d) != nil {
		return Dispatch{}, ErrForged
	}
	if now.After(d.Expires) {
		return d, ErrExpired
	}
	return d, nil
}

// Key makes the key of an execution, empty when there is no key to sign with.
func (k Keys) Key(e Execution) string {
	if k.Empty() {
		return ""
	}
	return k.list[0].id + "." + k.list[0].mac("execution", e.text())
}

// Fits reports whether key was made for this execution. How long that takes says nothing about the key.
func (k Keys) Fits(key string, e Execution) bool {
	id, mac, _ := strings.Cut(key, ".")
	return k.signed(id, mac, "execution", e.text())
}

// Seal makes a proof that this installation wrote a text, for a purpose; Sealed checks it.
func (k Keys) Seal(purpose, text string) string {
	if k.Empty() {
		return ""
	}
	return k.list[0].id + "." + k.list[0].mac("seal:"+purpose, text)
}

// Sealed reports whether seal is that of the text for the purpose.
func (k Keys) Sealed(seal, purpose, text string) bool {
	id, mac, _ := strings.Cut(seal, ".")
	return k.signed(id, mac, "seal:"+purpose, text)
}

// text is unambiguous: ids are quoted, because a caller chooses those that a key is compared for.
func (e Execution) text() string {
	return fmt.Sprintf("%q|%q|%d|%d|%d|%t|%d", e.RunID, e.StepID, e.LogicalAttempt, e.N, e.EngineAttempt, e.Hook, e.StartedSeq)
}

func (k Keys) signed(id, mac, purpose, text string) bool {
	ok := false
	for _, s := range k.list {
		ok = s.id == id && hmac.Equal([]byte(mac), []byte(s.mac(purpose, text))) || ok
	}
	return ok
}

func (s secret) mac(purpose, text string) string {
	h := hmac.New(sha256.New, s.bytes())
	fmt.Fprintf(h, "dvt|%s|%s|%s", purpose, s.id, text)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
