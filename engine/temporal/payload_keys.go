package temporal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// PayloadKeys encrypt the payloads that Temporal stores. The zero value has no keys. PayloadKeys are immutable and safe
// for concurrent use; fmt and slog never print their secrets.
type PayloadKeys struct {
	all      []payloadKey // the first one encrypts, except dispatches
	dispatch int          // index of the key that encrypts dispatches to workers of steps
}

type payloadKey struct {
	id string
	// secret is a function, because fmt prints a slice where it cannot call String.
	secret func() []byte
}

// ErrPayloadKey reports that a payload is encrypted by a key that this process does not have.
var ErrPayloadKey = errors.New(
	"temporal: a payload is encrypted by a key that is not among payload-keys and dispatch-keys")

// errPayload reports that a payload was changed, or not encrypted by dvt.
var errPayload = errors.New("temporal: a payload cannot be decrypted")

const (
	minPayloadSecret = 32 // bytes
	payloadSalt      = 16 // bytes; each payload has its own key, derived from a random salt
	payloadKeySize   = 32 // bytes: AES-256
	payloadPurpose   = "dvt temporal payload 1"
)

var payloadKeyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// ParsePayloadKeys parses two lists of keys of the form id:secret; the secret is at least 32 bytes in base64. The first
// key of each list encrypts; the keys of both lists decrypt. dispatch encrypts the payloads that data workers read and
// write, own all others. If one list is empty, the other serves both. Errors never show a secret.
func ParsePayloadKeys(own, dispatch []string) (PayloadKeys, error) {
	var out PayloadKeys
	secrets := map[string]string{}
	for _, list := range [][]string{own, dispatch} {
		seen := map[string]bool{}
		for i, text := range list {
			id, encoded, ok := strings.Cut(strings.TrimSpace(text), ":")
			b, err := base64.StdEncoding.DecodeString(encoded)
			before, known := secrets[id]
			switch {
			case !ok || !payloadKeyID.MatchString(id):
				return PayloadKeys{}, fmt.Errorf(
					"key number %d must look like id:secret, the id 1 to 32 characters of A-Z a-z 0-9 _ -", i+1)
			case err != nil || len(b) < minPayloadSecret:
				return PayloadKeys{}, fmt.Errorf(
					"the secret of key %s must be base64 of at least %d bytes: make one with `openssl rand -base64 32`",
					id, minPayloadSecret)
			case seen[id]:
				return PayloadKeys{}, fmt.Errorf("key %s is given twice", id)
			case known && before != encoded:
				return PayloadKeys{}, fmt.Errorf("payload-keys and dispatch-keys have different secrets for the key %s",
					id)
			}
			if seen[id] = true; !known {
				secrets[id] = encoded
				out.all = append(out.all, payloadKey{id: id, secret: func() []byte { return b }})
			}
		}
	}
	if len(own) > 0 && len(dispatch) > 0 {
		id, _, _ := strings.Cut(strings.TrimSpace(dispatch[0]), ":")
		out.dispatch = slices.IndexFunc(out.all, func(k payloadKey) bool { return k.id == id })
	}
	return out, nil
}

// Empty reports whether k has no key.
func (k PayloadKeys) Empty() bool { return len(k.all) == 0 }

// String returns the ids of the keys without their secrets.
func (k PayloadKeys) String() string {
	ids := make([]string, len(k.all))
	for i, key := range k.all {
		ids[i] = key.id + ":***"
	}
	return strings.Join(ids, " ")
}

// LogValue returns the ids of the keys without their secrets.
func (k PayloadKeys) LogValue() slog.Value { return slog.StringValue(k.String()) }

// encrypt encrypts a text with the first key, or with the key of dispatches, and returns the id of that key.
func (k PayloadKeys) encrypt(text []byte, dispatch bool) (id string, sealed []byte, err error) {
	if k.Empty() {
		return "", nil, errors.New("temporal: there is no key to encrypt payloads with")
	}
	key := k.all[0]
	if dispatch {
		key = k.all[k.dispatch]
	}
	salt := make([]byte, payloadSalt)
	if _, err := rand.Read(salt); err != nil {
		return "", nil, err
	}
	aead, err := key.aead(salt)
	if err != nil {
		return "", nil, err
	}
	return key.id, aead.Seal(salt, nil, text, key.additionalData()), nil
}

// decrypt decrypts the result of encrypt. Errors: ErrPayloadKey, errPayload.
func (k PayloadKeys) decrypt(id string, sealed []byte) ([]byte, error) {
	i := slices.IndexFunc(k.all, func(key payloadKey) bool { return key.id == id })
	if i < 0 {
		return nil, fmt.Errorf("%w: %.32q", ErrPayloadKey, id)
	}
	if len(sealed) < payloadSalt {
		return nil, errPayload
	}
	aead, err := k.all[i].aead(sealed[:payloadSalt])
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, nil, sealed[payloadSalt:], k.all[i].additionalData())
	if err != nil {
		return nil, errPayload
	}
	return text, nil
}

// aead returns AES-256-GCM under a key derived from the salt. Random nonces under one key would limit it to 2^32
// payloads.
func (k payloadKey) aead(salt []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, k.secret(), salt, payloadPurpose, payloadKeySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// additionalData returns the data that is authenticated together with the text.
func (k payloadKey) additionalData() []byte { return []byte(payloadPurpose + "\x00" + k.id) }
