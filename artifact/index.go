package artifact

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
)

// index lists the pieces of one log in order. They begin with line 1, do not overlap, and have at most one hole.
type index []piece

// total returns the number of the last line, or 0 for an empty log.
func (ix index) total() int64 {
	if len(ix) == 0 {
		return 0
	}
	return ix[len(ix)-1].to()
}

// kept returns the number, within an engine attempt, of its last stored line, or 0.
func (ix index) kept(engineAttempt int) (to int64) {
	for _, p := range ix {
		if p.engineAttempt == engineAttempt {
			to = max(to, p.eaTo)
		}
	}
	return to
}

// at returns the index of the first piece that holds a line with No >= no, or len(ix).
func (ix index) at(no int64) int {
	return sort.Search(len(ix), func(i int) bool { return ix[i].to() >= no })
}

// hole returns the line numbers directly before the piece at i that no piece holds.
func (ix index) hole(i int) Missing {
	if i == 0 || ix[i].from == ix[i-1].to()+1 {
		return Missing{}
	}
	return Missing{From: ix[i-1].to() + 1, To: ix[i].from - 1}
}

// missing returns the hole of the log; zero if there is none.
func (ix index) missing() Missing {
	for i := range ix {
		if m := ix.hole(i); m != (Missing{}) {
			return m
		}
	}
	return Missing{}
}

// trim returns the pieces to drop so that the log keeps its limits, and the number of the first line after the hole. It
// drops the oldest pieces behind the first quarter, and never the last piece.
func (ix index) trim(l Limits) (dropped []piece, resumes int64) {
	var lines, bytes, before int64
	for _, p := range ix {
		lines, bytes = lines+p.count, bytes+p.bytes
	}
	resumes = ix.missing().To + 1
	beginning := true
	for i, p := range ix[:len(ix)-1] {
		before += p.bytes
		beginning = i == 0 || beginning && ix.hole(i) == (Missing{}) && p.to() <= l.AttemptLines/4 &&
			before <= l.AttemptBytes/4
		if beginning {
			continue
		}
		if lines <= l.AttemptLines && bytes <= l.AttemptBytes {
			break
		}
		lines, bytes = lines-p.count, bytes-p.bytes
		dropped, resumes = append(dropped, p), ix[i+1].from
	}
	return dropped, resumes
}

const (
	// relist is how often a listing with a gap is repeated: a writer may have replaced pieces meanwhile. A gap that stays
	// is a lost object.
	relist     = 3
	relistWait = 20 * time.Millisecond
)

// index lists the objects of one log. unneeded are pieces that nobody reads and that a writer has not deleted yet,
// because it was killed. ErrNotFound means that a writer replaced or removed an object during the listing; the caller
// lists again.
func (s *Store) index(ctx context.Context, prefix string) (ix index, unneeded []piece, err error) {
	for try := 1; ; try++ {
		all, err := s.list(ctx, prefix)
		if err != nil {
			return nil, nil, err
		}
		var gap, whole bool
		if ix, unneeded, gap, whole = arrange(all); gap && try < relist {
			select {
			case <-ctx.Done():
				return nil, nil, failed("list log", ctx.Err())
			case <-time.After(relistWait):
			}
			continue
		}
		if !whole || !s.seen.reaches(prefix, ix.total()) {
			return nil, nil, ErrNotFound // the listing has neither a replaced piece nor the one that replaced it
		}
		return ix, unneeded, nil
	}
}

// list returns the pieces of one log in the order of their lines: of those that begin with the same line the sound ones
// first, then the longest.
func (s *Store) list(ctx context.Context, prefix string) (all []piece, err error) {
	it := s.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		obj, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // ErrNotFound: a file disappeared between the listing of the folder and its stat
			return nil, failed("list log", err)
		}
		if p, ok := parsePiece(strings.TrimPrefix(obj.Key, prefix), obj.Size); ok {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b piece) int {
		if a.torn != b.torn && a.from == b.from {
			if a.torn {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.count, a.count))
	})
	return all, nil
}

// arrange chooses the pieces that are the log. unneeded are those that it has twice or that were dropped. gap reports
// that lines are missing whose object is not listed; a torn piece stands for them. whole is false when the end of the
// hole is not listed.
func arrange(all []piece) (ix index, unneeded []piece, gap, whole bool) {
	resumes := int64(1)
	for _, p := range all {
		resumes = max(resumes, p.resumes)
	}
	next := int64(1)
	for _, p := range all {
		if next < resumes && p.from == resumes {
			next = resumes
		}
		switch {
		case p.from == next:
			ix, next = append(ix, p), p.to()+1
		case p.to() < resumes && p.from > next: // in the hole
			unneeded = append(unneeded, p)
		case p.from > next:
			gap = true
			ix = append(ix, piece{from: next, count: p.from - next, engineAttempt: p.engineAttempt, torn: true}, p)
			next = p.to() + 1
		case p.to() < next && !ix[len(ix)-1].torn: // replaced by a larger one
			unneeded = append(unneeded, p)
		}
	}
	return ix, unneeded, gap, resumes == 1 || next > resumes
}

// lengths remembers the greatest known length of logs. The listing of a folder is not atomic: while a writer replaces a
// piece, it may miss both the old and the new one, and the length reveals that. It forgets logs beyond maxLengths; such
// a log may once be read too short.
type lengths struct {
	mu sync.Mutex
	of map[string]int64
}

const maxLengths = 4096

// reaches reports whether total is at least the known length, and remembers it.
func (l *lengths) reaches(prefix string, total int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if total < l.of[prefix] {
		return false
	}
	if _, known := l.of[prefix]; !known && len(l.of) >= maxLengths {
		for other := range l.of {
			delete(l.of, other)
			break
		}
	}
	if total > 0 {
		l.of[prefix] = total
	}
	return true
}

func (l *lengths) forget(prefix string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, prefix)
}
