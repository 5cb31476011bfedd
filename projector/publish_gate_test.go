package projector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/live"
)

// recordingBus accepts every message.
type recordingBus struct {
	live.Bus
	sent, woken int
}

func (c *recordingBus) Up() bool { return true }

func (c *recordingBus) Publish(context.Context, live.Message) error {
	c.sent++
	return nil
}

func (c *recordingBus) WakeLists(context.Context, ...live.List) error {
	c.woken++
	return nil
}

// contract: T169
func TestPublishGate_ReadersKnowBeforeThePublisherStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &recordingBus{}
		s := NewPublishGate(bus)
		out, in := s.Publisher(), s.Readers()
		see := func(when string, publishes, reads bool) {
			t.Helper()
			before := *bus
			err1, err2 := out.Publish(t.Context(), live.Message{}), out.WakeLists(t.Context())
			if sent := bus.sent > before.sent && bus.woken > before.woken; sent != publishes || (err1 == nil) != publishes ||
				(err2 == nil) != publishes || out.Up() != publishes {
				t.Errorf("%s: published %t (%v, %v), up %t; want %t", when, sent, err1, err2, out.Up(), publishes)
			}
			if in.Up() != reads {
				t.Errorf("%s: Up for readers is %t", when, in.Up())
			}
		}
		see("initially", true, true)
		s.Hold()
		see("just held", true, false)
		time.Sleep(SettleDelay - time.Millisecond)
		see("almost settled", true, false)
		s.Hold() // repeated, as with each load of the settings
		time.Sleep(time.Millisecond)
		see("shut", false, false)
		s.Release()
		see("just released", true, false)
		time.Sleep(SettleDelay)
		see("open", true, true)
	})
}
