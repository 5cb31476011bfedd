package testserver

import (
	"bufio"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// BusProxy is a Proxy in front of Redis that sees every message of pub/sub on its way to a subscriber, in RESP 2 and 3.
// Everything else passes unchanged.
type BusProxy struct {
	*Proxy

	mu   sync.Mutex
	fate func(BusMessage) Fate
}

// BusMessage is one message on its way to one subscriber.
type BusMessage struct{ Channel, Payload string }

// Fate is what becomes of a message; the zero Fate lets it pass.
type Fate struct {
	Drop   bool
	Copies int           // more of it, right behind it
	Delay  time.Duration // what comes after it does not wait
	// Behind puts it behind the next message of its channel to the same subscriber, or
	// two seconds later when none comes.
	Behind bool
}

// behindLimit is how long a message waits for one that it is put behind.
const behindLimit = 2 * time.Second

// NewBusProxy starts a proxy in front of the Redis at upstream (host:port) and ends it when t ends.
func NewBusProxy(t testing.TB, upstream string) *BusProxy {
	t.Helper()
	b := &BusProxy{}
	b.Proxy = startProxy(t, upstream, func(l *link) (up, down func() error) {
		s := &subscriber{bus: b, link: l, behind: map[string][][]byte{}}
		return l.copies(l.server, l.client), s.carry
	})
	return b
}

// Each has every message asked about from now on; nil lets all pass. Calls come one at a time.
func (b *BusProxy) Each(fate func(BusMessage) Fate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fate = fate
}

// CutSubscribers resets the connections that have subscribed to something.
func (b *BusProxy) CutSubscribers() { b.cut(func(l *link) bool { return l.subscriber }) }

// Subscribers is how many connections have subscribed to something.
func (b *BusProxy) Subscribers() (n int) {
	b.Proxy.mu.Lock()
	defer b.Proxy.mu.Unlock()
	for l := range b.links {
		if l.subscriber {
			n++
		}
	}
	return n
}

func (b *BusProxy) decide(m BusMessage) Fate {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fate == nil {
		return Fate{}
	}
	return b.fate(m)
}

// Odds are probabilities, each for itself, of what happens to a message.
type Odds struct {
	Drop, Duplicate, Delay, Behind float64
	MaxDelay                       time.Duration
}

// Fates draws from a source that follows from seed.
func (o Odds) Fates(seed uint64) func(BusMessage) Fate {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(BusMessage) Fate {
		f := Fate{Drop: r.Float64() < o.Drop, Behind: r.Float64() < o.Behind}
		if r.Float64() < o.Duplicate {
			f.Copies = 1 + r.IntN(2)
		}
		if r.Float64() < o.Delay {
			f.Delay = time.Duration(r.Float64() * float64(o.MaxDelay))
		}
		return f
	}
}

// subscriber carries what Redis says to one connection.
type subscriber struct {
	bus  *BusProxy
	link *link

	mu     sync.Mutex // of writing to the client
	behind map[string][][]byte
}

func (s *subscriber) carry() error {
	in := bufio.NewReader(s.link.server)
	for {
		v, err := readRESP(in)
		if err != nil || !s.link.pass() {
			return err
		}
		if err := s.forward(v); err != nil {
			return err
		}
	}
}

func (s *subscriber) forward(v respValue) error {
	m, ok := s.message(v)
	if !ok {
		return s.write(v.raw, "")
	}
	f := s.bus.decide(m)
	if f.Drop {
		return nil
	}
	raw := v.raw
	for range f.Copies {
		raw = append(raw, v.raw...)
	}
	switch {
	case f.Behind:
		s.mu.Lock()
		s.behind[m.Channel] = append(s.behind[m.Channel], raw)
		s.mu.Unlock()
		s.later(behindLimit, nil, m.Channel)
	case f.Delay > 0:
		s.later(f.Delay, raw, "")
	default:
		return s.write(raw, m.Channel)
	}
	return nil
}

// later writes when the time has come, if the link is still there and lets things pass.
func (s *subscriber) later(after time.Duration, raw []byte, channel string) {
	s.bus.running.Go(func() {
		wait := time.NewTimer(after)
		defer wait.Stop()
		select {
		case <-s.link.over:
		case <-wait.C:
			if s.link.pass() {
				_ = s.write(raw, channel) // the reader finds a broken link
			}
		}
	})
}

// write sends raw and what was put behind a message of channel.
func (s *subscriber) write(raw []byte, channel string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, held := range s.behind[channel] {
		raw = append(raw[:len(raw):len(raw)], held...)
	}
	delete(s.behind, channel)
	_, err := s.link.client.Write(raw)
	return err
}

// message is v as a message of pub/sub. In RESP 2 a reply may look like one, but not on a connection that subscribes.
func (s *subscriber) message(v respValue) (BusMessage, bool) {
	if v.kind != '>' && v.kind != '*' || len(v.items) != 3 {
		return BusMessage{}, false
	}
	s.bus.Proxy.mu.Lock()
	defer s.bus.Proxy.mu.Unlock()
	if v.items[0] == "subscribe" {
		s.link.subscriber = true
	}
	return BusMessage{v.items[1], v.items[2]}, v.items[0] == "message" && s.link.subscriber
}
