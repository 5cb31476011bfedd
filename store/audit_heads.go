package store

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"time"
)

// SignedHeads is the newest link of each chain at one moment. It is signed, so that somebody outside can keep it and
// later prove which links existed.
type SignedHeads struct {
	Installation string      `json:"installation"`
	At           time.Time   `json:"at"`
	Heads        []AuditHead `json:"heads"`
	Signature    []byte      `json:"signature,omitempty"` // Ed25519 over the document without this field
}

// ErrSignature is returned for a document that the key did not sign or that has another form.
var ErrSignature = errors.New("store: the heads are not signed by this key")

// Encode signs the heads and returns the document.
func (h SignedHeads) Encode(key ed25519.PrivateKey) ([]byte, error) {
	h.Signature = nil
	body, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	h.Signature = ed25519.Sign(key, body)
	return json.Marshal(h)
}

// DecodeHeads reads a document of Encode. ErrSignature when key did not sign it.
func DecodeHeads(body []byte, key ed25519.PublicKey) (SignedHeads, error) {
	var h SignedHeads
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, errors.Join(ErrSignature, err)
	}
	signature := h.Signature
	h.Signature = nil
	plain, err := json.Marshal(h)
	if err != nil || !ed25519.Verify(key, plain, signature) {
		return SignedHeads{}, errors.Join(ErrSignature, err)
	}
	return h, nil
}
