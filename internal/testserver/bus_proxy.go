package testserver

import (
	"bufio"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// BusProxy is a Proxy in front of Redis that can drop, copy, delay and reorder the messages of pub/sub to each
// subscriber, in RESP 2 and 3. Everything else passes unchanged.
type BusProxy struct {
	*Proxy

	mu   sync.Mutex
	fate func(BusMessage) Fate
}

// BusMessage is one message to one subscriber.
type BusMessage struct{ Channel, Payload string }

// Fate tells a BusProxy what to do with a message. The zero value lets it pass.
type Fate struct {
	Drop   bool
	Copies int           // number of additional copies, directly after the message
	Delay  time.Duration // later messages do not wait for this one
	// Behind delivers the message after the next message of its channel to the same subscriber, or after two seconds when
	// there is none.
	Behind bool
}

// behindLimit is how long a message with Behind waits for the next message.
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

// SetFate sets the function that decides about every message from now on; nil lets all messages pass. The proxy makes
// one call at a time.
func (b *BusProxy) SetFate(fate func(BusMessage) Fate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fate = fate
}

// CutSubscribers resets the connections that have subscribed to a channel.
func (b *BusProxy) CutSubscribers() { b.cut(func(l *link) bool { return l.subscriber }) }

// Subscribers returns the number of connections that have subscribed to a channel.
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

// Odds are the independent probabilities of the parts of a Fate.
type Odds struct {
	Drop, Duplicate, Delay, Behind float64
	MaxDelay                       time.Duration
}

// Fates returns a function for BusProxy.SetFate that draws random fates. The same seed gives the same sequence.
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

// subscriber forwards the output of Redis to one connection.
type subscriber struct {
	bus  *BusProxy
	link *link

	mu     sync.Mutex          // held while writing to the client
	behind map[string][][]byte // messages that wait for the next message, by channel
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
		s.writeAfter(behindLimit, nil, m.Channel)
	case f.Delay > 0:
		s.writeAfter(f.Delay, raw, "")
	default:
		return s.write(raw, m.Channel)
	}
	return nil
}

// writeAfter writes raw after a delay, unless the link has ended.
func (s *subscriber) writeAfter(after time.Duration, raw []byte, channel string) {
	s.bus.running.Go(func() {
		wait := time.NewTimer(after)
		defer wait.Stop()
		select {
		case <-s.link.over:
		case <-wait.C:
			if s.link.pass() {
				_ = s.write(raw, channel) // the reader of the link notices the error
			}
		}
	})
}

// write sends raw, and then the messages that waited for a message of channel.
func (s *subscriber) write(raw []byte, channel string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, waiting := range s.behind[channel] {
		raw = append(raw[:len(raw):len(raw)], waiting...)
	}
	delete(s.behind, channel)
	_, err := s.link.client.Write(raw)
	return err
}

// message returns v as a message of pub/sub, and false when it is none. In RESP 2 another reply may look like a
// message, but not on a connection that has subscribed.
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
