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

// storm is a socket whose operations join and leave at random and whose reads sometimes lag. Each operation has its own
// continuity check.
type storm struct {
	*client
	rng  *rand.Rand
	mu   sync.Mutex
	at   map[string]*continuity // by id
	of   map[string]string      // the query of an id
	last map[string]int64       // last value received for each query
	ids  int
}

// act subscribes or completes one operation at random.
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
	since := s.last[query] * s.rng.Int64N(2)
	s.at[id], s.of[id] = &continuity{since}, query
	if since == 0 {
		s.subscribe(id, query)
		return
	}
	s.subscribeSince(id, query, since)
}

// read checks all payloads until every operation has reached the end.
func (s *storm) read(end func() (int64, bool)) error {
	for {
		if at, known := end(); known && s.allReached(at) {
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
		if id := refusedID(data); id != "" { // refused, because completed operations had not ended yet
			delete(s.at, id)
		}
		if at := s.at[m.ID]; at != nil { // payloads of a completed operation may still be in the connection
			err = at.accept(m)
			s.last[s.of[m.ID]] = max(at.at, s.last[s.of[m.ID]])
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

// refusedID returns the operation of an error message; "" for any other message.
func refusedID(data []byte) string {
	var m struct{ ID, Type string }
	if strings.Contains(string(data[:min(len(data), 400)]), `"type":"error"`) && json.Unmarshal(data, &m) == nil {
		return m.ID
	}
	return ""
}

// allReached reports whether every operation has received the value at.
func (s *storm) allReached(at int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.at {
		if c.at < at {
			return false
		}
	}
	return true
}

// Viewers join, lag and leave at random while payloads are published. Each must receive a chain without gaps, never an
// older value, and reach the last value.
// contract: S14
func TestStorm_EveryViewerReceivesAnUnbrokenChain(t *testing.T) {
	t.Parallel()
	const lasts = 2 * time.Second
	sockets := 24
	if raced {
		sockets = 6
	}
	source := newCounter(8 << 10)
	s := start(t, ws.Config{WriteTimeout: time.Minute, Share: sharing(source.open)}, panicIfAlone)
	stop := make(chan struct{})
	var acting, reading sync.WaitGroup
	var mu sync.Mutex
	end, known := int64(0), false
	failures := make(chan error, sockets)
	var storms []*storm
	for i := range sockets {
		c := &storm{client: s.open(t), rng: rand.New(rand.NewPCG(7, uint64(i))),
			at: map[string]*continuity{}, of: map[string]string{}, last: map[string]int64{}}
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
		c.send(`{"type":"ping"}`) // wakes readers that have received everything and block in a read
	}
	reading.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	t.Logf("%d next payloads, %d first payloads, %d for slow viewers", source.nexts.Load(), source.firsts.Load(),
		source.slow.Load())
	if source.slow.Load() == 0 {
		t.Error("no viewer was slow, so the test did not exercise skipping")
	}
}
