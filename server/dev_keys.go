package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sync"
	"time"
)

const (
	signInKeyLife = 24 * time.Hour
	// maxSignInKeys is the maximum number of unused keys; a new key replaces the oldest.
	maxSignInKeys = 20
)

// signInKeys holds the keys of links that each sign a browser in to `dvt dev` once. They are lost when the process
// ends, and the next start creates a new one. It is safe for concurrent use.
type signInKeys struct {
	now func() time.Time

	mu   sync.Mutex
	keys []signInKey // the oldest first
}

type signInKey struct {
	hash      [sha256.Size]byte
	principal string
	until     time.Time
}

// add creates a key of 256 random bits for a principal.
func (k *signInKeys) add(principal string) (key string) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	key = base64.RawURLEncoding.EncodeToString(raw)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.keys) == maxSignInKeys {
		k.keys = slices.Delete(k.keys, 0, 1)
	}
	k.keys = append(k.keys, signInKey{sha256.Sum256([]byte(key)), principal, k.now().Add(signInKeyLife)})
	return key
}

// take removes a key and returns its principal; false when the key is unknown or expired. It compares hashes, so the
// duration of a comparison reveals nothing about the keys.
func (k *signInKeys) take(key string) (principal string, ok bool) {
	hash := sha256.Sum256([]byte(key))
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.keys, func(s signInKey) bool { return s.hash == hash })
	if i < 0 {
		return "", false
	}
	s := k.keys[i]
	k.keys = slices.Delete(k.keys, i, i+1)
	return s.principal, k.now().Before(s.until)
}
