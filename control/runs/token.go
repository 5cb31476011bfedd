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

// ManualKey makes and verifies completion tokens (contract T201). Its secret is never printed.
type ManualKey struct {
	ID     string
	secret []byte
}

// minManualSecret is the size of the hash in bytes.
const minManualSecret = sha256.Size

var manualKeyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// ParseManualKeys parses keys of the form id:secret, with at least 32 bytes of secret in base64. The first key signs,
// and all of them verify. To rotate, put the new key first and remove the old one when no task is older than the
// change. Errors never contain a secret.
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

// token returns the token for one attempt of a step. The fields are separated by "|", which ids cannot contain.
func (k ManualKey) token(runID, stepID string, logicalAttempt int) string {
	mac := hmac.New(sha256.New, k.secret)
	fmt.Fprintf(mac, "%s|%s|%d|%s", runID, stepID, logicalAttempt, k.ID)
	return k.ID + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// tokenFits reports whether one of the keys made the token for this attempt. It compares with every key in constant
// time, so that its duration tells nothing about the token.
func tokenFits(keys []ManualKey, token, runID, stepID string, logicalAttempt int) bool {
	fits := false
	for _, k := range keys {
		fits = hmac.Equal([]byte(token), []byte(k.token(runID, stepID, logicalAttempt))) || fits
	}
	return fits
}
