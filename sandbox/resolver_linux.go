package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/dvt-engine/dvt/plan"
)

// The bounds of the DNS queries of one program.
const (
	maxQuestions     = 8       // at once
	questionRate     = 100     // queries a second, and the size of a burst
	maxQuestionBytes = 1 << 20 // over all queried names, because names can carry data out
	maxNames         = 4096    // remembered pairs of name and address
	questionTimeout  = 10 * time.Second
	answerTTL        = 30 // seconds
)

// nameTable remembers the addresses of the names that a program resolved. Several goroutines may use it at once.
type nameTable struct {
	mu    sync.Mutex
	pairs map[namePair]bool
}

type namePair struct {
	addr netip.Addr
	name string
}

func newNameTable() *nameTable { return &nameTable{pairs: map[namePair]bool{}} }

func (t *nameTable) add(addr netip.Addr, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pairs) < maxNames {
		t.pairs[namePair{addr.Unmap(), name}] = true
	}
}

func (t *nameTable) has(addr netip.Addr, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pairs[namePair{addr.Unmap(), name}]
}

// stubResolver answers queries for addresses on the step's loopback with the worker's own resolver. It returns no other
// records, so none of them can carry data in or out.
type stubResolver struct {
	connect    connectRules
	names      *nameTable
	violations *violations
	lookup     func(ctx context.Context, network, host string) ([]netip.Addr, error) // nil means the system's resolver

	closers  []io.Closer
	once     sync.Once
	slots    chan struct{}
	mu       sync.Mutex
	allowed  float64   // tokens of the rate limit
	at       time.Time // time of the last refill
	nameSize int       // bytes of all queried names
}

func (r *stubResolver) init() {
	r.once.Do(func() {
		r.slots = make(chan struct{}, maxQuestions)
		r.allowed, r.at = questionRate, time.Now()
		if r.lookup == nil {
			r.lookup = net.DefaultResolver.LookupNetIP
		}
	})
}

// serveUDP answers datagrams until close. It takes ownership of f.
func (r *stubResolver) serveUDP(f *os.File) error {
	r.init()
	conn, err := net.FilePacketConn(f)
	f.Close()
	if err != nil {
		return err
	}
	r.closers = append(r.closers, conn)
	go func() {
		buffer := make([]byte, 1232)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			question := append([]byte(nil), buffer[:n]...)
			r.runInSlot(func() {
				if reply := r.answer(question); reply != nil {
					_, _ = conn.WriteTo(reply, from)
				}
			})
		}
	}()
	return nil
}

// serveTCP answers connections until close. It takes ownership of f.
func (r *stubResolver) serveTCP(f *os.File) error {
	r.init()
	listener, err := net.FileListener(f)
	f.Close()
	if err != nil {
		return err
	}
	r.closers = append(r.closers, listener)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if !r.runInSlot(func() { r.serveConn(conn) }) {
				conn.Close()
			}
		}
	}()
	return nil
}

// serveConn answers one query of a connection and closes it.
func (r *stubResolver) serveConn(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(questionTimeout))
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	question := make([]byte, min(binary.BigEndian.Uint16(size[:]), 1232))
	if _, err := io.ReadFull(conn, question); err != nil {
		return
	}
	if reply := r.answer(question); reply != nil {
		_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
	}
}

// runInSlot runs f in a goroutine and returns true, or returns false when maxQuestions are running.
func (r *stubResolver) runInSlot(f func()) bool {
	select {
	case r.slots <- struct{}{}:
		go func() {
			defer func() { <-r.slots }()
			f()
		}()
		return true
	default:
		return false // the client of the step repeats its query
	}
}

func (r *stubResolver) close() {
	for _, c := range r.closers {
		c.Close()
	}
}

// answer returns the reply to a query, or nil when it is malformed.
func (r *stubResolver) answer(question []byte) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(question)
	if err != nil || header.Response {
		return nil
	}
	q, err := parser.Question()
	if err != nil {
		return nil
	}
	code, addrs := r.find(header, q)
	reply := dnsmessage.Header{
		ID: header.ID, Response: true, OpCode: header.OpCode, RecursionDesired: header.RecursionDesired,
		RecursionAvailable: true, RCode: code,
	}
	b := dnsmessage.NewBuilder(nil, reply)
	b.EnableCompression()
	err = errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers())
	for _, addr := range addrs {
		resource := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
		if addr.Is4() {
			err = errors.Join(err, b.AResource(resource, dnsmessage.AResource{A: addr.As4()}))
		} else {
			err = errors.Join(err, b.AAAAResource(resource, dnsmessage.AAAAResource{AAAA: addr.As16()}))
		}
	}
	out, finish := b.Finish()
	if err != nil || finish != nil {
		return nil
	}
	return out
}

// maxAddresses bounds the addresses of a reply, so that it fits into a datagram.
const maxAddresses = 16

func (r *stubResolver) find(header dnsmessage.Header, q dnsmessage.Question) (dnsmessage.RCode, []netip.Addr) {
	network := map[dnsmessage.Type]string{dnsmessage.TypeA: "ip4", dnsmessage.TypeAAAA: "ip6"}[q.Type]
	name := canonicalName(q.Name.String())
	switch {
	case header.OpCode != 0 || q.Class != dnsmessage.ClassINET:
		return dnsmessage.RCodeNotImplemented, nil
	case !r.connect.resolves(name):
		r.violations.add(plan.SandboxConnect, fmt.Sprintf("the name %.100q was not resolved: the step does not list it",
			name))
		return dnsmessage.RCodeRefused, nil
	case network == "":
		return dnsmessage.RCodeSuccess, nil
	case !r.admit(len(name)):
		r.violations.add(plan.SandboxConnect, "names were not resolved because the step asked for too many")
		return dnsmessage.RCodeRefused, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), questionTimeout)
	defer cancel()
	addrs, err := r.lookup(ctx, network, name+".")
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return dnsmessage.RCodeNameError, nil
	case err != nil:
		return dnsmessage.RCodeServerFailure, nil
	}
	var out []netip.Addr
	for _, addr := range addrs[:min(len(addrs), maxAddresses)] {
		if addr = addr.Unmap(); addr.Is4() == (network == "ip4") {
			r.names.add(addr, name)
			out = append(out, addr)
		}
	}
	return dnsmessage.RCodeSuccess, out
}

// admit reports whether a query with a name of size bytes fits into the rate and the budget of bytes, and charges both.
func (r *stubResolver) admit(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.allowed = min(r.allowed+now.Sub(r.at).Seconds()*questionRate, questionRate)
	r.at = now
	if r.allowed < 1 || r.nameSize+size > maxQuestionBytes {
		return false
	}
	r.allowed--
	r.nameSize += size
	return true
}
