package ws_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/graph/ws"
)

// storm is a socket that joins, lags and leaves at random; each operation has a
// checker of its own.
type storm struct {
	*client
	rng    *rand.Rand
	mu     sync.Mutex
	at     map[string]*continuity // by id
	of     map[string]string      // the query of an id
	places map[string]int64       // the last that was shown of a query
	ids    int
}

// act does one random thing to the operations.
func (s *storm) act() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.at) > 0 && (len(s.at) > 5 || s.rng.IntN(3) == 0) {
		for id := range s.at {
			delete(s.at, id)
			s.send(`{"id":"` + id + `","type":"complete"}`)
			return
		}
	}
	s.ids++
	id := fmt.Sprintf("%d%s", s.ids, strings.Repeat("-", s.rng.IntN(300))) // heads of every length
	query := []string{subscription, "subscription { b }"}[s.rng.IntN(2)]
	since := s.places[query] * s.rng.Int64N(2)
	s.at[id], s.of[id] = &continuity{since}, query
	if since == 0 {
		s.subscribe(id, query)
		return
	}
	s.subscribeSince(id, query, since)
}

// read judges all that is shown until every operation is at the end.
func (s *storm) read(end func() (int64, bool)) error {
	for {
		if at, known := end(); known && s.all(at) {
			return nil
		}
		_ = s.SetReadDeadline(time.Now().Add(time.Minute))
		_, data, err := s.ReadMessage()
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		m, err := parse(data)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if id := refusedID(data); id != "" { // the socket had all its operations: completed ones had not ended yet
			delete(s.at, id)
		}
		if at := s.at[m.ID]; at != nil { // frames may still come after a complete
			err = at.accept(m)
			s.places[s.of[m.ID]] = max(at.at, s.places[s.of[m.ID]])
		}
		lag := s.rng.IntN(50) == 0
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if lag {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// refusedID is the operation that an error is about; "" for any other frame.
func refusedID(data []byte) string {
	var m struct{ ID, Type string }
	if strings.Contains(string(data[:min(len(data), 400)]), `"type":"error"`) && json.Unmarshal(data, &m) == nil {
		return m.ID
	}
	return ""
}

func (s *storm) all(at int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.at {
		if c.at < at {
			return false
		}
	}
	return true
}

// Whatever viewers do while payloads rush past: each is shown a chain without gaps
// that never goes back, and reaches the end.
// contract: S14
func TestStorm_EveryViewerIsShownAnUnbrokenChain(t *testing.T) {
	t.Parallel()
	const lasts = 2 * time.Second
	sockets := 24
	if raced {
		sockets = 6
	}
	source := newCounter(8 << 10)
	s := start(t, ws.Config{WriteTimeout: time.Minute, Share: sharing(source.open)}, nobody)
	stop := make(chan struct{})
	var acting, reading sync.WaitGroup
	var mu sync.Mutex
	end, known := int64(0), false
	failures := make(chan error, sockets)
	var storms []*storm
	for i := range sockets {
		c := &storm{client: s.open(t), rng: rand.New(rand.NewPCG(7, uint64(i))),
			at: map[string]*continuity{}, of: map[string]string{}, places: map[string]int64{}}
		storms = append(storms, c)
		acting.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(i%5+1) * time.Millisecond):
					c.act()
				}
			}
		})
		reading.Go(func() {
			if err := c.read(func() (int64, bool) { mu.Lock(); defer mu.Unlock(); return end, known }); err != nil {
				failures <- err
			}
		})
	}
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(time.Millisecond) {
		source.advance(3, nil)
	}
	close(stop)
	acting.Wait()
	mu.Lock()
	end, known = source.current(), true
	mu.Unlock()
	for _, c := range storms {
		c.send(`{"type":"ping"}`) // whoever has read all waits for one more
	}
	reading.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	t.Logf("%d payloads, %d first ones, %d for slow viewers", source.nexts.Load(), source.firsts.Load(),
		source.slow.Load())
	if source.slow.Load() == 0 {
		t.Error("nobody was slow: the storm was none")
	}
}
