package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// A due time is carried as what it lies behind the time to which the timer is set, rounded up: in quarters of a second, in a byte, of an
// attempt that is RUNNING in the log; of any other as a power of two seconds, in half a byte with the mark below.
const (
	carriedQuarter      = 250 * time.Millisecond
	carriedApart   byte = 8 // it does not wait for a token
)

// packDelayed writes which steps are delayed, a bit each, and half a byte for each of those. Of the ones that are RUNNING,
// which are no more than the width, it writes the ordinal behind the one before, the due time in a byte, and how often the
// attempt vanished, doubled, with 1 more where it waits for a token.
func (m *Machine) packDelayed(c *Carried) {
	d := &m.delays
	first := m.nextDelay()
	if len(d.apart)+len(d.tokens) == 0 {
		return
	}
	c.DelayedFrom, c.TokensAt, c.TokensGap, c.TokensRow = first, d.next, d.gap, d.row
	n, before := 0, -1
	for i := range m.steps {
		st := &m.steps[i]
		if st.stage != delayed {
			continue
		}
		behind := max(0, st.due.Sub(first)) // one that is due and has no turn yet takes its turn as before
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
			how |= carriedApart
		}
		c.Delayed = setBit(c.Delayed, i)
		if n%2 == 0 {
			c.DelayedHow = append(c.DelayedHow, 0)
		}
		c.DelayedHow[n/2] |= how << (4 * (n % 2))
		n++
	}
}

// dueBehind is what a due time is carried as: 0, or from 1 to 64 seconds.
func dueBehind(how byte) time.Duration {
	if how &^= carriedApart; how == 0 {
		return 0
	}
	return time.Second << (how - 1)
}

// unpackDelayed is packDelayed backwards. It comes before the steps are placed.
func (m *Machine) unpackDelayed(c Carried) error {
	n := 0
	for i := range 8 * len(c.Delayed) {
		switch {
		case !hasBit(c.Delayed, i):
		case i >= len(m.steps) || n/2 >= len(c.DelayedHow):
			return fmt.Errorf("%w: step %d is delayed", ErrCarried, i)
		default:
			how := c.DelayedHow[n/2] >> (4 * (n % 2)) & 0x0f
			m.wait(run.Ord(i), c.DelayedFrom.Add(dueBehind(how)), how&carriedApart == 0)
			n++
		}
	}
	in := entries{rest: c.DelayedRunning}
	for i := -1; len(in.rest) > 0; {
		gap, quarters, how := in.number(), in.byte(), in.number()
		if in.broken || gap < 1 || gap > len(m.steps)-1-i {
			return fmt.Errorf("%w: the attempts that wait are not of a plan of %d steps", ErrCarried, len(m.steps))
		}
		i += gap
		m.steps[i].begun, m.steps[i].vanished = true, min(how>>1, math.MaxInt32)
		m.wait(run.Ord(i), c.DelayedFrom.Add(time.Duration(quarters)*carriedQuarter), how&1 != 0)
	}
	if d := &m.delays; len(d.tokens) > 0 {
		d.next, d.gap, d.row = c.TokensAt, max(0, c.TokensGap), min(max(1, c.TokensRow), m.schedule.width)
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
