// Package redisbus is live.Bus on Redis pub/sub: one channel per run and one
// per tenant and project. It is the only package that speaks Redis. Delivery is
// at most once; what is lost is found by the hub (T125).
//
// One connection receives for the whole process. Its one reader only puts
// messages into small mailboxes and never blocks (T206).
package redisbus

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dvt-engine/dvt/live"
)

// mailbox is how many deliveries wait for a slow reader before it must catch up.
const mailbox = 16

// Config of a Bus.
type Config struct {
	URL    string // redis://[user:password@]host:port/db, rediss:// for TLS
	Logger *slog.Logger
	// TLS is for a URL of rediss://; nil: the authorities of the system, and the host of the URL. It may read its
	// certificates again in each handshake.
	TLS *tls.Config
	// Password returns the password of the next connection; nil: that of the URL.
	Password func() string
	// PingInterval is how often the bus is asked whether it answers; 250 ms.
	PingInterval time.Duration
}

// Bus is live.Bus. Make it with Open; Close ends it.
type Bus struct {
	client  *redis.Client
	log     *slog.Logger
	up      atomic.Bool
	heard   atomic.Int64 // when the receiving connection last said something, in ns
	pubsub  atomic.Pointer[redis.PubSub]
	stop    context.CancelFunc
	done    sync.WaitGroup
	changed chan struct{} // rings when names is not empty

	mu       sync.Mutex
	channels map[string]*channel
	names    map[string]struct{} // channels to subscribe to or to leave
}

// channel is one Redis channel with those who listen to it in this process.
type channel struct {
	confirmed bool
	asked     time.Time // when Redis was last asked for it
	subs      map[*subscription]struct{}
}

// Open connects lazily: a Redis that is down now is found down by Up.
func Open(cfg Config) (*Bus, error) {
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
	quietDriver()
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = 2*time.Second, 2*time.Second, 2*time.Second
	opts.MaxRetries, opts.DialerRetries = 1, 1
	opts.ContextTimeoutEnabled = true // else a ping waits for ReadTimeout, and Up is late
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

// want has name looked at by keep; it needs b.mu.
func (b *Bus) want(name string) {
	b.names[name] = struct{}{}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

const (
	keepInterval = 500 * time.Millisecond
	// silence is how long an answer may take on the receiving connection.
	silence = 2 * time.Second
)

// keep is the only one who sends on the receiving connection, which may block:
// it subscribes and leaves, asks again for what was not confirmed, and replaces
// a connection that has gone silent without breaking.
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
				_ = b.pubsub.Load().Ping(ctx) // a broken connection is the receiver's to find
			case time.Since(pinged) > silence:
				pinged = time.Time{}
				b.replace(ctx)
			}
			b.askAgain()
		}
		b.subscribe(ctx)
	}
}

// replace gives up the receiving connection; the receiver takes the new one.
func (b *Bus) replace(ctx context.Context) {
	old := b.pubsub.Swap(b.client.Subscribe(ctx))
	if ctx.Err() != nil {
		_ = b.pubsub.Load().Close() // Close came in between and may have closed only the old one
	}
	_ = old.Close() // it is silent anyway
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.channels {
		b.want(name)
	}
}

// askAgain wants what should have been confirmed by now.
func (b *Bus) askAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, ch := range b.channels {
		if !ch.confirmed && time.Since(ch.asked) > silence {
			b.want(name)
		}
	}
}

// subscribe tells Redis about the wanted names. On a broken connection this only
// records them: they are subscribed to on reconnect.
func (b *Bus) subscribe(ctx context.Context) {
	var join, leave []string
	b.mu.Lock()
	for name := range b.names {
		if ch := b.channels[name]; ch != nil {
			ch.asked = time.Now()
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

// receive is the one reader. It reads the connection itself, so that nothing is
// dropped behind its back, and hears of every confirmation.
func (b *Bus) receive(ctx context.Context) {
	for ctx.Err() == nil {
		got, err := b.pubsub.Load().Receive(ctx)
		if err != nil {
			b.lost()
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

// lost forgets confirmations: the next ones mean that messages may be missing.
func (b *Bus) lost() {
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
			b.log.Warn("bus message unreadable", slog.String("channel", name))
			d = live.Delivery{Overflow: true} // something happened: one catch-up read says what
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

const unreachable = "Redis cannot be used; views go on by polling the store"

// quietDriver takes away the driver's own lines on standard error, which are several a second while a server refuses.
// The bus says once why it is lost.
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

// subscription is one listener.
type subscription struct {
	bus  *Bus
	name string
	c    chan live.Delivery
}

// put never blocks: a full mailbox is emptied, and what comes now says so. It is
// called under bus.mu, so there is room after that.
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
