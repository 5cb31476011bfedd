package archive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// altered changes the bodies that a bucket answers.
type altered struct {
	archive.Objects
	body func(whole []byte) io.Reader
}

func (o altered) OpenArchived(ctx context.Context, name string) (io.ReadCloser, error) {
	in, err := o.Objects.OpenArchived(ctx, name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	whole, err := io.ReadAll(in)
	return io.NopCloser(o.body(whole)), err
}

// failing is a connection that ends.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestRead_AConnectionThatEndsIsNoDamage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.archive(f.endedRun(1), 0)
	for _, cause := range []error{errors.New("connection reset"), io.ErrUnexpectedEOF} {
		for _, part := range []int64{0, 1, 3} { // quarters that arrive before
			_, err := archive.Read(t.Context(), altered{f.objects, func(whole []byte) io.Reader {
				return io.MultiReader(bytes.NewReader(whole[:int64(len(whole))*part/4]), failing{cause})
			}}, a)
			if errors.Is(err, archive.ErrTorn) || !errors.Is(err, cause) {
				t.Errorf("Read after %d quarters and %q: %v; want that error, and not ErrTorn", part, cause, err)
			}
		}
	}
}

func TestRead_AWrongLengthIsDamage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.archive(f.endedRun(1), 0)
	for name, body := range map[string]func(whole []byte) io.Reader{
		"without an end": func(whole []byte) io.Reader { return io.MultiReader(bytes.NewReader(whole), zeros{}) },
		"short":          func(whole []byte) io.Reader { return bytes.NewReader(whole[:len(whole)-9]) },
		"error document": func([]byte) io.Reader { return bytes.NewReader([]byte("<Error><Code>SlowDown</Code></Error>")) },
	} {
		ended := make(chan error, 1)
		go func() {
			_, err := archive.Read(t.Context(), altered{f.objects, body}, a)
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, archive.ErrTorn) {
				t.Errorf("Read of an object that is %s: %v; want ErrTorn", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("Read of an object %s does not end", name)
		}
	}
}
