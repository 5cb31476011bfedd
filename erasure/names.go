package erasure

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/dvt-engine/dvt/store/owner"
)

// Archived opens the archived logs of runs.
type Archived interface {
	// OpenArchived opens one; fs.ErrNotExist.
	OpenArchived(ctx context.Context, name string) (io.ReadCloser, error)
}

// findNames counts what still names a person, by table, and the archived logs under "archive". It returns the places
// that it does not search: programs may print any name, and the engine's histories end with its own retention.
func (r *Runner) findNames(ctx context.Context, s owner.Scope) (found map[string]int64, not []string, err error) {
	if found, err = r.cfg.Owner.FindNames(ctx, s); err != nil {
		return nil, nil, err
	}
	not = []string{"artifacts", "step logs", "histories of the engine", "backups"}
	if r.cfg.Archived == nil {
		return found, append(not, "archive"), nil
	}
	after := ""
	for {
		runs, locations, err := r.cfg.Owner.Archives(ctx, s.TenantID, after, r.cfg.Batch)
		if err != nil {
			return nil, nil, err
		}
		for i, location := range locations {
			named, err := r.namesIn(ctx, location, s.Needles())
			if err != nil {
				return nil, nil, fmt.Errorf("search the archived log of run %s: %w", runs[i], err)
			}
			if named {
				found["archive"]++
			}
		}
		if len(runs) < r.cfg.Batch {
			return found, not, nil
		}
		after = runs[len(runs)-1]
	}
}

// namesIn reports whether an archived log has one of the needles. One that the retention has deleted has none.
func (r *Runner) namesIn(ctx context.Context, location string, needles []string) (bool, error) {
	body, err := r.cfg.Archived.OpenArchived(ctx, location)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer body.Close()
	plain, err := gzip.NewReader(body)
	if err != nil {
		return false, err
	}
	return contains(plain, needles)
}

// contains reads r to its end, or to the first needle.
func contains(r io.Reader, needles []string) (bool, error) {
	longest := 0
	for _, n := range needles {
		longest = max(longest, len(n))
	}
	window, chunk := []byte(nil), make([]byte, 64<<10)
	for {
		n, err := r.Read(chunk)
		window = append(window, chunk[:n]...)
		for _, needle := range needles {
			if bytes.Contains(window, []byte(needle)) {
				return true, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		window = append(window[:0], window[max(0, len(window)-longest):]...) // a needle may lie across two chunks
	}
}
