package storeadmin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RunFile is the only run of an export, as ReadRun returns it.
type RunFile struct {
	Run      store.Run
	Events   []run.Event
	Receipts []run.SignalReceipt
	Bytes    int // of the lines, as a weight for caches
}

// ErrRunFile says that a file is not the complete export of one run.
var ErrRunFile = errors.New("storeadmin: the file is not the complete export of one run")

// ReadRun reads the export of one run, as Export writes it. Unlike Import it accepts events that no append would
// accept, because the log of an imported run has them: the caller compares the events with a hash. ErrRunFile for a
// file that was cut off or has another number of runs.
func ReadRun(ctx context.Context, in io.Reader) (RunFile, error) {
	count := &counter{in: in}
	to := &oneRun{}
	r := newReader(bufio.NewReaderSize(count, 1<<16), to)
	if err := r.read(ctx); err != nil {
		return RunFile{}, fmt.Errorf("%w: %w", ErrRunFile, err)
	}
	if !r.closed || to.runs != 1 {
		return RunFile{}, ErrRunFile
	}
	to.file.Bytes = count.n
	return to.file, nil
}

// counter counts the bytes that were read.
type counter struct {
	in io.Reader
	n  int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += n
	return n, err
}

// oneRun is the sink of ReadRun.
type oneRun struct {
	file RunFile
	runs int
}

func (o *oneRun) plan(context.Context, planLine) error { return nil }

func (o *oneRun) unit(_ context.Context, u unit) error {
	o.runs++
	o.file.Run, o.file.Events, o.file.Receipts = u.run, u.events, u.receipts
	return nil
}

func (o *oneRun) violation(Violation) {}
