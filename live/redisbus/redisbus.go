// Package redisbus implements live.Bus on Redis pub/sub, with one channel for each run and one for each project of a
// tenant. It is the only package that uses the Redis client. Delivery is at most once; the hub finds lost messages
// (contract T125).
//
// One connection receives for the whole process. Its reader only puts messages into small mailboxes and never blocks
// (contract T206).
package redisbus

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dvt-engine/dvt/live"
)

// mailbox is how many deliveries wait for a slow reader before it must catch up with a read.
const mailbox = 16

// Config configures a Bus.
type Config struct {
	URL    string // redis://[user:password@]host:port/db, rediss:// for TLS
	Logger *slog.Logger
	// TLS is used with a rediss:// URL. nil uses the system's certificate authorities and the URL's host name. It may
	// read its certificates again in each handshake.
	TLS *tls.Config
	// Password returns the password for the next connection. nil uses the URL's password.
	Password func() string
	// Dial opens the connections of a server without an address. nil uses the URL's address.
	Dial func(ctx context.Context) (net.Conn, error)
	// PingInterval is the time between two pings of the server. Default 250 ms.
	PingInterval time.Duration
}

// Bus implements live.Bus. Make it with Open; Close ends it. Safe for concurrent use.
type Bus struct {
	client  *redis.Client
	log     *slog.Logger
	up      atomic.Bool
	heard   atomic.Int64 // when the receiving connection last received something, in Unix ns
	pubsub  atomic.Pointer[redis.PubSub]
	stop    context.CancelFunc
	done    sync.WaitGroup
	changed chan struct{} // signals that names is not empty

	mu       sync.Mutex
	channels map[string]*channel
	names    map[string]struct{} // channels to subscribe or to unsubscribe
}

// channel is one Redis channel with its listeners in this process.
type channel struct {
	confirmed   bool
	requestedAt time.Time // when the subscription was last requested
	subs        map[*subscription]struct{}
}

// options returns the options of the driver. Its error contains nothing of the URL, which may hold a password.
func (cfg Config) options() (*redis.Options, error) {
	opts, err := redis.ParseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("redisbus: %w", errors.New("the URL must look like redis://host:port/0"))
	}
	if opts.TLSConfig != nil && cfg.TLS != nil {
		opts.TLSConfig = cfg.TLS
	}
	if cfg.Password != nil {
		user := opts.Username
		opts.CredentialsProviderContext = func(context.Context) (string, string, error) { return user, cfg.Password(), nil }
	}
	if cfg.Dial != nil {
		opts.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return cfg.Dial(ctx) }
	}
	quietDriver()
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = 2*time.Second, 2*time.Second, 2*time.Second
	opts.MaxRetries, opts.DialerRetries = 1, 1
	opts.ContextTimeoutEnabled = true // else a ping waits for ReadTimeout, and Up is late
	return opts, nil
}

// Open returns an error only for an invalid URL. It connects lazily: if Redis is down, Up is false.
func Open(cfg Config) (*Bus, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	if cfg.PingInterval == 0 {
		cfg.PingInterval = 250 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &Bus{client: redis.NewClient(opts), log: cfg.Logger, stop: stop, changed: make(chan struct{}, 1),
		channels: map[string]*channel{}, names: map[string]struct{}{}}
	err = b.ping(ctx)
	if b.up.Store(err == nil); err != nil {
		b.log.Warn(unreachable, slog.Any("error", err))
	}
	b.pubsub.Store(b.client.Subscribe(ctx))
	b.done.Go(func() { b.receive(ctx) })
	b.done.Go(func() { b.keep(ctx) })
	b.done.Go(func() { b.watch(ctx, cfg.PingInterval) })
	return b, nil
}

func runChannel(runID string) string { return "dvt:run:" + runID }

func listChannel(tenantID, projectID string) string { return "dvt:runs:" + tenantID + ":" + projectID }

// Up implements live.Bus.
func (b *Bus) Up() bool { return b.up.Load() }

// Close implements live.Bus.
func (b *Bus) Close() error {
	b.stop()
	err := b.pubsub.Load().Close()
	b.done.Wait()
	return errors.Join(err, b.client.Close())
}

// Subscribe implements live.Bus.
func (b *Bus) Subscribe(runID string) live.Subscription { return b.open(runChannel(runID)) }

// SubscribeList implements live.Bus.
func (b *Bus) SubscribeList(tenantID, projectID string) live.Subscription {
	return b.open(listChannel(tenantID, projectID))
}

func (b *Bus) open(name string) *subscription {
	s := &subscription{bus: b, name: name, c: make(chan live.Delivery, mailbox)}
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := b.channels[name]
	if ch == nil {
		ch = &channel{subs: map[*subscription]struct{}{}}
		b.channels[name] = ch
		b.want(name)
	} else if ch.confirmed {
		s.put(live.Delivery{Confirmed: true})
	}
	ch.subs[s] = struct{}{}
	return s
}

func (b *Bus) close(s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := b.channels[s.name]
	if ch == nil {
		return
	}
	delete(ch.subs, s)
	if len(ch.subs) == 0 {
		delete(b.channels, s.name)
		b.want(s.name)
	}
}

// want queues name for keep. The caller holds b.mu.
func (b *Bus) want(name string) {
	b.names[name] = struct{}{}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

const (
	keepInterval = 500 * time.Millisecond
	// silence is the longest time that the receiving connection may take to answer.
	silence = 2 * time.Second
)

// keep is the only sender on the receiving connection, because sending may block. It subscribes and unsubscribes,
// repeats requests that were not confirmed, and replaces a connection that is silent without being broken.
func (b *Bus) keep(ctx context.Context) {
	tick := time.NewTicker(keepInterval)
	defer tick.Stop()
	var pinged time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.changed:
		case <-tick.C:
			if !b.Up() {
				continue
			}
			switch {
			case pinged.IsZero() || b.heard.Load() >= pinged.UnixNano():
				pinged = time.Now()
				_ = b.pubsub.Load().Ping(ctx) // receive notices a broken connection
			case time.Since(pinged) > silence:
				pinged = time.Time{}
				b.replace(ctx)
			}
			b.requestUnconfirmed()
		}
		b.subscribe(ctx)
	}
}

// replace closes the receiving connection; receive continues on the new one.
func (b *Bus) replace(ctx context.Context) {
	old := b.pubsub.Swap(b.client.Subscribe(ctx))
	if ctx.Err() != nil {
		_ = b.pubsub.Load().Close() // Close ran meanwhile and may have closed only the old one
	}
	_ = old.Close() // a silent connection may fail to close
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.channels {
		b.want(name)
	}
}

// requestUnconfirmed queues the channels whose confirmation is overdue.
func (b *Bus) requestUnconfirmed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, ch := range b.channels {
		if !ch.confirmed && time.Since(ch.requestedAt) > silence {
			b.want(name)
		}
	}
}

// subscribe sends the queued requests to Redis. On a broken connection the client records them and sends them after
// reconnecting.
func (b *Bus) subscribe(ctx context.Context) {
	var join, leave []string
	b.mu.Lock()
	for name := range b.names {
		if ch := b.channels[name]; ch != nil {
			ch.requestedAt = time.Now()
			join = append(join, name)
		} else {
			leave = append(leave, name)
		}
	}
	clear(b.names)
	b.mu.Unlock()
	if len(leave) > 0 {
		_ = b.pubsub.Load().Unsubscribe(ctx, leave...)
	}
	if len(join) > 0 {
		_ = b.pubsub.Load().Subscribe(ctx, join...)
	}
}

// receive is the only reader of the receiving connection. It does not use the client's channel, which drops messages
// and hides confirmations.
func (b *Bus) receive(ctx context.Context) {
	for ctx.Err() == nil {
		got, err := b.pubsub.Load().Receive(ctx)
		if err != nil {
			b.clearConfirmations()
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		b.heard.Store(time.Now().UnixNano())
		switch got := got.(type) {
		case *redis.Subscription:
			if got.Kind == "subscribe" {
				b.confirm(got.Channel)
			}
		case *redis.Message:
			b.deliver(got.Channel, got.Payload)
		}
	}
}

// clearConfirmations clears the confirmations. The next ones mean that messages may be missing.
func (b *Bus) clearConfirmations() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ch := range b.channels {
		ch.confirmed = false
	}
}

func (b *Bus) confirm(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ch := b.channels[name]; ch != nil {
		ch.confirmed = true
		for s := range ch.subs {
			s.put(live.Delivery{Confirmed: true})
		}
	}
}

func (b *Bus) deliver(name, payload string) {
	d := live.Delivery{}
	if payload != "" {
		d.Message = &live.Message{}
		if err := json.Unmarshal([]byte(payload), d.Message); err != nil {
			b.log.Warn("a message of the bus cannot be read; subscribers read the store", slog.String("channel", name))
			d = live.Delivery{Overflow: true} // something changed; a catch-up read finds it
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if ch := b.channels[name]; ch != nil {
		for s := range ch.subs {
			s.put(d)
		}
	}
}

const unreachable = "Redis cannot be used; views continue by polling the store"

// quietDriver silences the driver's own log lines, which are several per second while a server refuses connections.
// The bus logs the reason itself.
//
//nolint:gochecknoglobals // the driver has one logger for the process
var quietDriver = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func (b *Bus) watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err := b.ping(ctx)
			switch changed := b.up.Swap(err == nil) != (err == nil); {
			case !changed || ctx.Err() != nil:
			case err == nil:
				b.log.Info("Redis answers again")
			default:
				b.log.Warn(unreachable, slog.Any("error", err))
			}
		}
	}
}

func (b *Bus) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	return b.client.Ping(ctx).Err()
}

// subscription is one listener of a channel.
type subscription struct {
	bus  *Bus
	name string
	c    chan live.Delivery
}

// put never blocks. It empties a full mailbox and sets Overflow in d. The caller holds bus.mu, so that nobody else
// fills the mailbox.
func (s *subscription) put(d live.Delivery) {
	select {
	case s.c <- d:
		return
	default:
	}
	d.Overflow = true
	for range cap(s.c) {
		select {
		case old := <-s.c:
			d.Confirmed = d.Confirmed || old.Confirmed
		default:
		}
	}
	s.c <- d
}

// C implements live.Subscription.
func (s *subscription) C() <-chan live.Delivery { return s.c }

// Close implements live.Subscription.
func (s *subscription) Close() { s.bus.close(s) }
