package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/secret/mask"
)

// maskedBytes is how much output passes in one measurement.
const maskedBytes = 300_000_000

// maskOutput passes a log through the masker of ten secrets. The floor passes it through a reader that copies. Each
// thousandth line has a secret, so that masks are written too. Both are processor times, so a busy machine does not
// change them much.
func maskOutput(context.Context, *rig.Rig) (*rig.Trial, error) {
	r := rand.New(rand.NewPCG(22, 4))
	values := make([]string, 10)
	for i := range values {
		for range 24 {
			values[i] += string(rune('!' + r.IntN('~'-'!')))
		}
	}
	var text bytes.Buffer
	for i := 0; text.Len() < 3_000_000; i++ {
		_, _ = fmt.Fprintf(&text, "2026-11-28 08:00:%02d INFO  loaded %d rows of orders in %d ms (id %x)\n", i%60,
			r.IntN(1e6), r.IntN(1e4), r.Uint32())
		if i%1000 == 0 {
			_, _ = fmt.Fprintf(&text, "connect to warehouse with %s\n", values[i/1000%10])
		}
	}
	log := text.Bytes()
	masker := mask.New(values...)
	out, err := io.ReadAll(masker.Reader(bytes.NewReader(log)))
	if err != nil || strings.Contains(string(out), values[0]) || !strings.Contains(string(out), mask.Hidden) {
		return nil, errors.Join(err, errors.New("the masker does not hide the secrets of the measurement"))
	}
	pass := func(through func(io.Reader) io.Reader) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			before, err := ownCPU()
			buffer := make([]byte, 64<<10)
			for n := 0; n < maskedBytes && err == nil; n += len(log) {
				// Neither side writes to the other directly: output comes from a pipe in pieces.
				_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, through(bytes.NewReader(log)), buffer)
				err = errors.Join(err, ctx.Err())
			}
			after, err2 := ownCPU()
			return after - before, errors.Join(err, err2)
		}
	}
	plain := func(r io.Reader) io.Reader { return struct{ io.Reader }{r} }
	masked := func(r io.Reader) io.Reader { return plain(masker.Reader(r)) }
	return &rig.Trial{Repeat: rig.LeastOf(3, pass(masked), pass(plain))}, nil
}
