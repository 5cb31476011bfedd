// Package ticket creates and checks the proofs that tie a worker's calls to its dispatch. The driver of the interpreter
// creates a ticket for each dispatch. The Journal creates a key for each execution when the execution begins. Both are
// MACs under keys that control workers and servers share; data workers and engines do not have them. The package does
// no I/O and reads no clock.
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

// Errors of Check. With both of them the ticket authorises nothing.
var (
	ErrForged  = errors.New("ticket: not made by this installation")
	ErrExpired = errors.New("ticket: expired")
)

// Life is the validity of a ticket after its creation. It exceeds the time that a step waits for a worker in an
// ordinary backlog. A dispatch with an expired ticket is dispatched again with a new one and has lost no attempt.
const Life = 24 * time.Hour

// Dispatch is the dispatch that a ticket authorises.
type Dispatch struct {
	RunID          string    `json:"run"`
	StepID         string    `json:"step"`
	LogicalAttempt int       `json:"attempt"` // of a hook: the attempt that succeeded
	N              int       `json:"n"`       // dispatch ordinal
	Queue          string    `json:"queue"`
	Hook           bool      `json:"hook,omitempty"`        // the compensation of the step
	PassFailing    bool      `json:"passFailing,omitempty"` // store.StartAttempt.PassFailing
	SignalID       string    `json:"signal,omitempty"`      // store.StartAttempt.SignalID
	Expires        time.Time `json:"expires"`
}

// Execution is the execution that a key authorises.
type Execution struct {
	RunID, StepID                    string
	LogicalAttempt, N, EngineAttempt int
	Hook                             bool
	StartedSeq                       run.Seq // position of the attempt's StepStarted; 0 for a hook
}

// Keys sign tickets and keys of executions. The zero value has no key: it signs nothing and accepts nothing. Keys are
// immutable and safe for concurrent use; fmt and slog never print their secrets.
type Keys struct{ list []secret }

type secret struct {
	id string
	// bytes is a function, because fmt prints a slice where it cannot call String.
	bytes func() []byte
}

// minSecret is the least length of a secret in bytes: that of the hash.
const minSecret = sha256.Size

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// ParseKeys parses keys of the form id:secret; the secret is at least 32 bytes in base64. The first key signs, and all
// are accepted. To change a key, put the new one first, and remove the old one when the runs that were open then are
// over. Errors never show a secret.
func ParseKeys(list []string) (Keys, error) {
	var out Keys
	known := map[string]bool{}
	for i, text := range list {
		id, encoded, ok := strings.Cut(strings.TrimSpace(text), ":")
		b, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case !ok || !keyID.MatchString(id):
			return Keys{}, fmt.Errorf("key number %d must look like id:secret, the id 1 to 32 characters of A-Z a-z 0-9 _ -", i+
				1)
		case err != nil || len(b) < minSecret:
			return Keys{}, fmt.Errorf(
				"the secret of key %s must be base64 of at least %d bytes: make one with `openssl rand -base64 32`", id, minSecret)
		case known[id]:
			return Keys{}, fmt.Errorf("key %s is given twice", id)
		}
		known[id] = true
		out.list = append(out.list, secret{id: id, bytes: func() []byte { return b }})
	}
	return out, nil
}

// Empty reports whether k has no key.
func (k Keys) Empty() bool { return len(k.list) == 0 }

// String returns the ids of the keys without their secrets.
func (k Keys) String() string {
	ids := make([]string, len(k.list))
	for i, s := range k.list {
		ids[i] = s.id + ":***"
	}
	return strings.Join(ids, " ")
}

// LogValue returns the ids of the keys without their secrets.
func (k Keys) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Ticket returns the ticket of a dispatch, or "" when k is empty. The same dispatch always gives the same ticket.
func (k Keys) Ticket(d Dispatch) string {
	if k.Empty() {
		return ""
	}
	d.Expires = d.Expires.UTC().Truncate(time.Second)
	body, err := json.Marshal(d)
	if err != nil {
		return "" // JSON cannot represent the year of Expires
	}
	text := base64.RawURLEncoding.EncodeToString(body)
	return k.list[0].id + "." + text + "." + k.list[0].mac("ticket", text)
}

// Check verifies a ticket and returns its dispatch. Errors: ErrForged; ErrExpired, with the dispatch.
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

// Key returns the key of an execution, or "" when k is empty.
func (k Keys) Key(e Execution) string {
	if k.Empty() {
		return ""
	}
	return k.list[0].id + "." + k.list[0].mac("execution", e.text())
}

// Fits reports whether key was made for this execution. The comparison takes constant time.
func (k Keys) Fits(key string, e Execution) bool {
	id, mac, _ := strings.Cut(key, ".")
	return k.signed(id, mac, "execution", e.text())
}

// Seal returns a proof that this installation wrote a text for a purpose, or "" when k is empty. Sealed checks it.
func (k Keys) Seal(purpose, text string) string {
	if k.Empty() {
		return ""
	}
	return k.list[0].id + "." + k.list[0].mac("seal:"+purpose, text)
}

// VerifySeal reports whether Seal returned seal for this purpose and text.
func (k Keys) VerifySeal(seal, purpose, text string) bool {
	id, mac, _ := strings.Cut(seal, ".")
	return k.signed(id, mac, "seal:"+purpose, text)
}

// LooksSealed reports whether a seal that Sealed refuses has the form of one. Then a key that k lacks may have made it,
// and a process with that key could tell; any other text is no seal of anybody.
func (k Keys) LooksSealed(seal string) bool {
	id, mac, _ := strings.Cut(seal, ".")
	b, err := base64.RawURLEncoding.DecodeString(mac)
	return id != "" && err == nil && len(b) == sha256.Size
}

// KeyOf returns the id of the key that a seal names.
func KeyOf(seal string) string {
	id, _, _ := strings.Cut(seal, ".")
	return id
}

// text returns the text under the MAC. It quotes ids, because the caller chooses them and could otherwise shift the
// separators.
func (e Execution) text() string {
	return fmt.Sprintf("%q|%q|%d|%d|%d|%t|%d", e.RunID, e.StepID, e.LogicalAttempt, e.N, e.EngineAttempt, e.Hook,
		e.StartedSeq)
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
