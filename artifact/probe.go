package artifact

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
)

// probeEvery is how long a successful write proves that the bucket can be written. Health is asked for each second by
// any number of probes, and a write to a bucket costs money.
const probeEvery = 15 * time.Second

// probePrefix begins the names of the objects that CheckWritable writes and deletes.
const probePrefix = "health/"

// writeProbe knows when the last write succeeded. The zero value is ready.
type writeProbe struct {
	mu sync.Mutex
	at time.Time
}

// CheckWritable implements Logs.
func (s *Store) CheckWritable(ctx context.Context) error {
	s.probe.mu.Lock()
	defer s.probe.mu.Unlock()
	if !s.probe.at.IsZero() && time.Since(s.probe.at) < probeEvery {
		return nil
	}
	name := probePrefix + rand.Text() // two processes never delete each other's object
	if err := s.bucket.write(ctx, name, strings.NewReader("dvt"), blob.WriterOptions{}); err != nil {
		return failed("write a probe", err)
	}
	if err := s.bucket.Delete(ctx, name); err != nil {
		return failed("delete a probe", err)
	}
	s.probe.at = time.Now()
	return nil
}
