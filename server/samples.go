package server

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// maxNotes and maxNote bound what the receiver of the samples keeps.
const (
	maxNotes = 100
	maxNote  = 64 << 10
)

// notifications is the small receiver that the sample plan notifies (T219).
type notifications struct {
	mu    sync.Mutex
	notes []note
}

type note struct {
	At   time.Time `json:"at"`
	Key  string    `json:"idempotencyKey,omitempty"`
	Body string    `json:"body"`
}

// receiveNote takes a note from a step, which has no token: the address is what it knows.
func (p *parts) receiveNote(w http.ResponseWriter, r *http.Request) {
	if !same(r.PathValue("key"), p.dev.access.derive(notifyPurpose)) {
		http.Error(w, "this is not the address of the receiver: `dvt dev sample shop` prints a plan that has it",
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

// devPlan gives a sample plan as this server would run it, to start it by hand.
func (p *parts) devPlan(w http.ResponseWriter, r *http.Request) {
	doc, err := p.sample(r.PathValue("name"))
	if err != nil {
		http.Error(w, "there is no such sample: shop or broken", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(doc)
}
