package server

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// Limits of the receiver of sample notifications.
const (
	maxNotes = 100      // notes; a new one replaces the oldest
	maxNote  = 64 << 10 // bytes of one note
)

// notifications receives the notifications of the sample plan, so that the sample works without an external service
// (contract T219). It is safe for concurrent use.
type notifications struct {
	mu    sync.Mutex
	notes []note
}

type note struct {
	At   time.Time `json:"at"`
	Key  string    `json:"idempotencyKey,omitempty"`
	Body string    `json:"body"`
}

// receiveNote stores a note from a step. A step has no token, so the secret in the path authorises it.
func (p *parts) receiveNote(w http.ResponseWriter, r *http.Request) {
	if !same(r.PathValue("key"), p.dev.access.derive(notifyPurpose)) {
		http.Error(w, "this is not the address of the receiver: `dvt dev sample shop` prints a plan with the right one",
			http.StatusNotFound)
		return
	}
	p.dev.notes.receive(w, r)
}

func (n *notifications) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxNote))
	if err != nil {
		http.Error(w, "the note is larger than 64 KiB", http.StatusRequestEntityTooLarge)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.notes) == maxNotes {
		n.notes = n.notes[1:]
	}
	n.notes = append(n.notes, note{At: time.Now().UTC(), Key: r.Header.Get("Idempotency-Key"), Body: string(body)})
	w.WriteHeader(http.StatusNoContent)
}

func (n *notifications) list(w http.ResponseWriter, _ *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(n.notes)
}

// devPlan responds with a sample plan as this server would run it, so that people can start it by hand.
func (p *parts) devPlan(w http.ResponseWriter, r *http.Request) {
	doc, err := p.sample(r.PathValue("name"))
	if err != nil {
		http.Error(w, "this sample does not exist: the samples are shop and broken", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(doc)
}
