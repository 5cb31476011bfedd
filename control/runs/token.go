package runs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// ManualKey makes and knows completion tokens (T201). Its secret is never printed.
type ManualKey struct {
	ID     string
	secret []byte
}

// minManualSecret is as many bytes as the hash has.
const minManualSecret = sha256.Size

var manualKeyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// ParseManualKeys reads keys written as id:secret, the secret in base64 with at
// least 32 bytes. The first one signs; the others are known still, which is how a
// key is changed: put the new one first, and drop the old one when no task is
// older. An error never shows a secret.
func ParseManualKeys(list []string) ([]ManualKey, error) {
	var keys []ManualKey
	known := map[string]bool{}
	for i, text := range list {
		id, encoded, ok := strings.Cut(strings.TrimSpace(text), ":")
		secret, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case !ok || !manualKeyID.MatchString(id):
			return nil, fmt.Errorf(
				"the manual key number %d must look like id:secret, the id 1 to 32 characters of A-Z a-z 0-9 _ -", i+1)
		case err != nil || len(secret) < minManualSecret:
			return nil, fmt.Errorf(
				"the secret of the manual key %s must be base64 of at least %d bytes: make one with `openssl rand -base64 32`", id,
				minManualSecret)
		case known[id]:
			return nil, fmt.Errorf("the manual key %s is given twice", id)
		}
		known[id] = true
		keys = append(keys, ManualKey{ID: id, secret: secret})
	}
	return keys, nil
}

// String hides the secret.
func (k ManualKey) String() string { return k.ID + ":***" }

// GoString hides the secret.
func (k ManualKey) GoString() string { return k.String() }

// LogValue hides the secret.
func (k ManualKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// token completes one attempt of a step. The ids cannot hold the separator.
func (k ManualKey) token(runID, stepID string, la int) string {
	mac := hmac.New(sha256.New, k.secret)
	fmt.Fprintf(mac, "%s|%s|%d|%s", runID, stepID, la, k.ID)
	return k.ID + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// tokenFits reports whether one of the keys made the token for this attempt. How
// long that takes says nothing about the token.
func tokenFits(keys []ManualKey, token, runID, stepID string, la int) bool {
	fits := false
	for _, k := range keys {
		fits = hmac.Equal([]byte(token), []byte(k.token(runID, stepID, la))) || fits
	}
	return fits
}
