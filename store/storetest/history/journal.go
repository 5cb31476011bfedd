package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

// Journal is a file that several processes append records to. It is safe for
// concurrent use.
type Journal struct {
	name  string
	calls atomic.Int64

	mu   sync.Mutex
	file *os.File
	err  error
}

// Open opens the journal at path, and makes it when it is missing. name is that
// of this life of a process; no two may have the same.
func Open(path, name string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Journal{name: name, file: f}, nil
}

// Write appends a record in one write, so that a kill tears at most the last one
// of a process. A line begins with a line break: what follows a torn one is whole.
func (j *Journal) Write(r Record) {
	b := bytes.NewBufferString("\n")
	err := json.NewEncoder(b).Encode(r)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		_, err = j.file.Write(b.Bytes())
	}
	if err != nil && j.err == nil {
		j.err = fmt.Errorf("history: %w", err)
	}
}

// call writes c and returns its id.
func (j *Journal) call(c Call) string {
	c.ID = j.name + "#" + strconv.FormatInt(j.calls.Add(1), 10)
	j.Write(Record{Call: &c})
	return c.ID
}

// Close closes the file and returns the first error of the journal: a history
// with a record missing proves nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.file.Close(); j.err == nil && err != nil {
		j.err = fmt.Errorf("history: %w", err)
	}
	return j.err
}
