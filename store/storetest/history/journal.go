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

// Journal is a file to which several processes append records. It is safe for concurrent use.
type Journal struct {
	name  string
	calls atomic.Int64

	mu   sync.Mutex
	file *os.File
	err  error
}

// Open opens the journal at path and creates it if it does not exist. name identifies one execution of a process and
// must be unique in the journal.
func Open(path, name string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Journal{name: name, file: f}, nil
}

// Write appends a record in one write, so that a kill truncates at most the last record of a process. Each record
// begins with a line break, so that a truncated record does not damage the next one. Close returns the error of a
// failed write.
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

// call writes c with a new id and returns the id.
func (j *Journal) call(c Call) string {
	c.ID = j.name + "#" + strconv.FormatInt(j.calls.Add(1), 10)
	j.Write(Record{Call: &c})
	return c.ID
}

// Close closes the file and returns the first error of the journal. The history is then incomplete and must not be
// used.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.file.Close(); j.err == nil && err != nil {
		j.err = fmt.Errorf("history: %w", err)
	}
	return j.err
}
