// Package subject seals the personal fields of audit rows (who acted, why and from where) with keys of the actors, so
// that an actor can be erased from an audit whose rows never change.
//
// Each key lies in the store, sealed by a key of the installation. Destroying the keys of an actor makes the fields
// unreadable for ever, in the store and, with the ledger of erasures, in a restored backup.
package subject

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	minSecret = 32 // bytes of a key of the installation
	keySize   = 32 // bytes: AES-256
	// maxKeys bounds the keys that a process remembers. It makes another key for an actor that it forgot.
	maxKeys = 10_000
)

// Purposes of the keys that are derived from a key of the installation.
const (
	purposeWrap   = "dvt subject key 1"
	purposeLookup = "dvt subject lookup 1"
	purposeHash   = "dvt erasure hash 1"
	purposeProof  = "dvt erasure proof 1"
)

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// ErrKey says that the installation lacks the key by which a subject's key is sealed.
var ErrKey = errors.New("subject: the key of an actor is sealed by a key that is not among subject-keys")

// Keyring holds the keys of the installation and remembers the keys of actors that it made or loaded. A nil *Keyring
// seals nothing. It is safe for concurrent use; fmt and slog never print its secrets.
type Keyring struct {
	own []installationKey // the first one seals

	mu    sync.Mutex
	known map[string]*actorKey // by lookup
}

type installationKey struct {
	id string
	// derive is a function, because fmt prints a slice where it cannot call String.
	derive func(purpose string) []byte
}

type actorKey struct {
	stored store.SubjectKey
	aead   cipher.AEAD
}

// Parse returns a Keyring for keys of the form id:secret, the secret at least 32 bytes in base64. The first key seals;
// all of them open. Errors never show a secret. An empty list gives nil.
func Parse(list []string) (*Keyring, error) {
	if len(list) == 0 {
		return nil, nil
	}
	k := &Keyring{known: map[string]*actorKey{}}
	seen := map[string]bool{}
	for i, text := range list {
		id, encoded, ok := strings.Cut(strings.TrimSpace(text), ":")
		secret, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case !ok || !keyID.MatchString(id):
			return nil, fmt.Errorf("key number %d must look like id:secret, the id 1 to 32 characters of A-Z a-z 0-9 _ -", i+1)
		case err != nil || len(secret) < minSecret:
			return nil, fmt.Errorf("the secret of key %s must be base64 of at least %d bytes: make one with "+
				"`openssl rand -base64 32`", id, minSecret)
		case seen[id]:
			return nil, fmt.Errorf("key %s is given twice", id)
		}
		seen[id] = true
		derived := map[string][]byte{}
		for _, purpose := range []string{purposeWrap, purposeLookup, purposeHash,
			purposeProof} {
			if derived[purpose], err = hkdf.Key(sha256.New, secret, nil, purpose, keySize); err != nil {
				return nil, fmt.Errorf("key %s: %w", id, err)
			}
		}
		k.own = append(k.own, installationKey{id, func(purpose string) []byte { return derived[purpose] }})
	}
	return k, nil
}

// String returns the ids of the installation's keys without their secrets.
func (k *Keyring) String() string {
	if k == nil {
		return ""
	}
	ids := make([]string, len(k.own))
	for i, o := range k.own {
		ids[i] = o.id + ":***"
	}
	return strings.Join(ids, " ")
}

// Lookups returns the values of SubjectKey.Lookup of an actor, one for each key of the installation.
func (k *Keyring) Lookups(tenantID, actor string) []string {
	out := make([]string, len(k.own))
	for i, o := range k.own {
		out[i] = keyedHash(o.derive(purposeLookup), tenantID, actor)
	}
	return out
}

// Hash returns the keyed hash of parts by the first key of the installation, and the id of that key. Certificates and
// the ledger of erasures name what was erased by it, so that only somebody with the key can recognize a name.
func (k *Keyring) Hash(parts ...string) (id, hash string) {
	return k.own[0].id, keyedHash(k.own[0].derive(purposeHash), parts...)
}

// HashBy is Hash by the key with that id. ErrKey when the installation lacks it.
func (k *Keyring) HashBy(id string, parts ...string) (string, error) {
	o, ok := k.byID(id)
	if !ok {
		return "", fmt.Errorf("%w: key %s", ErrKey, id)
	}
	return keyedHash(o.derive(purposeHash), parts...), nil
}

func keyedHash(key []byte, parts ...string) string {
	h := hmac.New(sha256.New, key)
	sum := store.Digest(parts...)
	h.Write(sum[:])
	return hex.EncodeToString(h.Sum(nil))
}

func (k *Keyring) byID(id string) (installationKey, bool) {
	for _, o := range k.own {
		if o.id == id {
			return o, true
		}
	}
	return installationKey{}, false
}

// Seal returns rows whose personal fields are sealed, each with the key that the store keeps. Rows of dvt itself, which
// name no credential and no address, stay as they are. The rows of the caller do not change.
func (k *Keyring) Seal(rows []store.AuditRow) ([]store.AuditRow, error) {
	if k == nil {
		return rows, nil
	}
	out := make([]store.AuditRow, len(rows))
	for i, r := range rows {
		if r = r.Fit(); r.Actor != "" && (r.Credential != "" || r.Address != "") && r.Key == nil {
			key, err := k.keyOf(r.TenantID, r.Actor)
			if err != nil {
				return nil, err
			}
			stored := key.stored
			r.Key, r.Actor = &stored, store.SealedActor+stored.ID
			// The sealed form is longer, and must still fit the table.
			r.Reason = key.sealText("reason", run.Text(r.Reason, store.MaxRowText/2))
			r.Address = key.sealText("address", run.Text(r.Address, store.MaxRowText/2))
		}
		out[i] = r
	}
	return out, nil
}

// sealText returns the stored form of a text; an empty text stays empty.
func (a *actorKey) sealText(field, text string) string {
	if text == "" {
		return ""
	}
	return store.SealedText + a.stored.ID + ":" + seal(a.aead, field+" "+a.stored.ID, []byte(text))
}

// keyOf returns the key of an actor, and makes one when the process knows none.
func (k *Keyring) keyOf(tenantID, actor string) (*actorKey, error) {
	lookup := keyedHash(k.own[0].derive(purposeLookup), tenantID, actor)
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.known[lookup]; key != nil {
		return key, nil
	}
	random := make([]byte, 16+keySize)
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("subject: %w", err)
	}
	key := &actorKey{stored: store.SubjectKey{ID: hex.EncodeToString(random[:16]), TenantID: tenantID, Lookup: lookup}}
	secret := random[16:]
	wrap, err := newAEAD(k.own[0].derive(purposeWrap))
	if err != nil {
		return nil, err
	}
	key.stored.Wrapped = k.own[0].id + ":" + seal(wrap, wrapContext(key.stored), secret)
	if key.aead, err = newAEAD(secret); err != nil {
		return nil, err
	}
	key.stored.Name = seal(key.aead, "name "+key.stored.ID, []byte(actor))
	k.remember(lookup, key)
	return key, nil
}

// remember keeps a key in memory. It forgets any other key when there are too many.
func (k *Keyring) remember(lookup string, key *actorKey) {
	if len(k.known) >= maxKeys {
		for other := range k.known {
			delete(k.known, other)
			break
		}
	}
	k.known[lookup] = key
}

// unwrap opens the key of an actor. A destroyed key gives nil.
func (k *Keyring) unwrap(s store.SubjectKey) (*actorKey, error) {
	if s.Wrapped == "" {
		return nil, nil
	}
	id, sealed, _ := strings.Cut(s.Wrapped, ":")
	o, ok := k.byID(id)
	if !ok {
		return nil, fmt.Errorf("%w: key %s", ErrKey, id)
	}
	wrap, err := newAEAD(o.derive(purposeWrap))
	if err != nil {
		return nil, err
	}
	secret, err := unseal(wrap, wrapContext(s), sealed)
	if err != nil {
		return nil, err
	}
	aead, err := newAEAD(secret)
	return &actorKey{s, aead}, err
}

func wrapContext(s store.SubjectKey) string { return "key " + s.ID + " of " + s.TenantID }

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("subject: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("subject: %w", err)
	}
	return aead, nil
}

func seal(aead cipher.AEAD, context string, text []byte) string {
	return base64.RawStdEncoding.EncodeToString(aead.Seal(nil, nil, text, []byte(context)))
}

func unseal(aead cipher.AEAD, context, sealed string) ([]byte, error) {
	raw, err := base64.RawStdEncoding.DecodeString(sealed)
	if err != nil {
		return nil, fmt.Errorf("subject: a sealed text was changed: %w", err)
	}
	text, err := aead.Open(nil, nil, raw, []byte(context))
	if err != nil {
		return nil, fmt.Errorf("subject: a sealed text was changed: %w", err)
	}
	return text, nil
}
