package projector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/live"
)

// calm is a bus that takes everything.
type calm struct {
	live.Bus
	sent, woken int
}

func (c *calm) Up() bool { return true }

func (c *calm) Publish(context.Context, live.Message) error {
	c.sent++
	return nil
}

func (c *calm) WakeLists(context.Context, ...live.List) error {
	c.woken++
	return nil
}

// contract: T169
func TestSwitch_ReadersKnowBeforeThePublisherStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &calm{}
		s := NewSwitch(bus)
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
				t.Errorf("%s: readers see a bus: %t", when, in.Up())
			}
		}
		see("at first", true, true)
		s.Shut(true)
		see("just shut", true, false)
		time.Sleep(Settle - time.Millisecond)
		see("almost settled", true, false)
		s.Shut(true) // again, as with each load of the settings
		time.Sleep(time.Millisecond)
		see("shut", false, false)
		s.Shut(false)
		see("just opened", true, false)
		time.Sleep(Settle)
		see("open", true, true)
	})
}
