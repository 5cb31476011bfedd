package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// CarriedState has a due time as the distance to the earliest due time, rounded up. The distance of an attempt that is
// RUNNING in the log is a byte in units of carriedQuarter. The distance of another step is a power of two seconds; it
// shares half a byte with carriedWithoutToken. This keeps the CarriedState of the largest plan below MaxCarriedBytes.
const (
	carriedQuarter           = 250 * time.Millisecond
	carriedWithoutToken byte = 8 // the step does not wait for a token
)

// packDelayed writes the delayed steps. A step that is not RUNNING takes one bit in Delayed and half a byte in
// DelayedHow. A RUNNING one takes an entry in DelayedRunning: the distance to the previous ordinal, the due time in a
// byte, and twice the number of returns without a reason, plus 1 if the step waits for a token. There are at most as
// many RUNNING ones as the width of the run.
func (m *Machine) packDelayed(c *CarriedState) {
	d := &m.delays
	first := m.nextDelay()
	if len(d.withoutToken)+len(d.tokens) == 0 {
		return
	}
	c.DelayedFrom, c.TokensAt, c.TokensGap, c.TokensRow = first, d.next, d.gap, d.batch
	n, before := 0, -1
	for i := range m.steps {
		st := &m.steps[i]
		if st.stage != delayed {
			continue
		}
		behind := max(0, st.due.Sub(first)) // a step that is due already stays first
		if st.begun {
			quarters := min((behind+carriedQuarter-1)/carriedQuarter, math.MaxUint8)
			how := uint64(st.vanished) << 1
			if st.forToken {
				how |= 1
			}
			c.DelayedRunning = append(binary.AppendUvarint(c.DelayedRunning, uint64(i-before)), byte(quarters))
			c.DelayedRunning, before = binary.AppendUvarint(c.DelayedRunning, how), i
			continue
		}
		var how byte
		for how < 7 && behind > dueBehind(how) {
			how++
		}
		if !st.forToken {
			how |= carriedWithoutToken
		}
		c.Delayed = setBit(c.Delayed, i)
		if n%2 == 0 {
			c.DelayedHow = append(c.DelayedHow, 0)
		}
		c.DelayedHow[n/2] |= how << (4 * (n % 2))
		n++
	}
}

// dueBehind decodes the distance in how: 0, or 1 to 64 seconds.
func dueBehind(how byte) time.Duration {
	if how &^= carriedWithoutToken; how == 0 {
		return 0
	}
	return time.Second << (how - 1)
}

// unpackDelayed restores the state that packDelayed wrote. It must run before unpackSteps, which makes steps ready that
// are not delayed. Its errors wrap ErrCarried.
func (m *Machine) unpackDelayed(c CarriedState) error {
	n := 0
	for i := range 8 * len(c.Delayed) {
		switch {
		case !hasBit(c.Delayed, i):
		case i >= len(m.steps) || n/2 >= len(c.DelayedHow):
			return fmt.Errorf("%w: the delayed step %d does not match a plan of %d steps", ErrCarried, i, len(m.steps))
		default:
			how := c.DelayedHow[n/2] >> (4 * (n % 2)) & 0x0f
			m.wait(run.Ord(i), c.DelayedFrom.Add(dueBehind(how)), how&carriedWithoutToken == 0)
			n++
		}
	}
	in := entries{rest: c.DelayedRunning}
	for i := -1; len(in.rest) > 0; {
		gap, quarters, how := in.number(), in.byte(), in.number()
		if in.broken || gap < 1 || gap > len(m.steps)-1-i {
			return fmt.Errorf("%w: the delayed attempts do not match a plan of %d steps", ErrCarried, len(m.steps))
		}
		i += gap
		m.steps[i].begun, m.steps[i].vanished = true, min(how>>1, math.MaxInt32)
		m.wait(run.Ord(i), c.DelayedFrom.Add(time.Duration(quarters)*carriedQuarter), how&1 != 0)
	}
	if d := &m.delays; len(d.tokens) > 0 {
		d.next, d.gap, d.batch = c.TokensAt, max(0, c.TokensGap), min(max(1, c.TokensRow), m.schedule.width)
	}
	return nil
}

func setBit(bits []byte, i int) []byte {
	for len(bits) <= i/8 {
		bits = append(bits, 0)
	}
	bits[i/8] |= 1 << (i % 8)
	return bits
}

func hasBit(bits []byte, i int) bool { return i/8 < len(bits) && bits[i/8]&(1<<(i%8)) != 0 }
