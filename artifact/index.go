package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
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

// index lists the objects of one log. dropped are pieces in its hole that a writer has not deleted yet, because it was
// killed. ErrNotFound means that a writer replaced or removed an object during the listing; the caller lists again.
func (s *Store) index(ctx context.Context, prefix string) (ix index, dropped []piece, err error) {
	var all []piece
	resumes := int64(1)
	it := s.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		obj, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil, nil, ErrNotFound // a file disappeared between the listing of the folder and its stat
		}
		if err != nil {
			return nil, nil, fmt.Errorf("artifact: list log: %w", err)
		}
		if p, ok := parsePiece(strings.TrimPrefix(obj.Key, prefix)); ok {
			all = append(all, p)
			resumes = max(resumes, p.resumes)
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].from != all[j].from {
			return all[i].from < all[j].from
		}
		return all[i].count > all[j].count
	})
	next := int64(1)
	for _, p := range all {
		if next < resumes && p.from == resumes {
			next = resumes
		}
		if p.from == next {
			ix, next = append(ix, p), p.to()+1
		} else if p.to() < resumes {
			dropped = append(dropped, p)
		} // every other piece was replaced by a larger one
	}
	if resumes > 1 && next <= resumes || !s.seen.reaches(prefix, ix.total()) {
		return nil, nil, ErrNotFound // the listing has neither a replaced piece nor the one that replaced it
	}
	return ix, dropped, nil
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
