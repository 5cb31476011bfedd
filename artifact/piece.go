package artifact

import (
	"bufio"
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// A piece is a run of lines of one engine attempt in one object. Its key says
// all that finding and deduplicating lines needs, so a log is indexed by listing
// it. Objects never change; a small last piece is replaced by a larger one that
// begins at the same line.
type piece struct {
	from  int64 // No of its first line
	count int64
	bytes int64
	ea    int
	eaTo  int64 // number of its last line within the engine attempt
	full  bool  // the log ends here: limits were reached
}

const (
	pieceKey   = "%09d_%d_%d_%d_%d_%d.jsonl"
	pieceLines = 256      // a last piece below both is replaced when more lines come
	pieceBytes = 64 << 10 //
)

func (p piece) key(prefix string) string {
	full := 0
	if p.full {
		full = 1
	}
	return prefix + fmt.Sprintf(pieceKey, p.from, p.count, p.bytes, p.ea, p.eaTo, full)
}

func parsePiece(base string) (piece, bool) {
	var p piece
	var full int
	n, err := fmt.Sscanf(base, pieceKey, &p.from, &p.count, &p.bytes, &p.ea, &p.eaTo, &full)
	p.full = full == 1
	return p, err == nil && n == 6 && p.from > 0 && p.count > 0 && p.key("") == base
}

// index is the pieces of one log in order, without holes or overlaps.
type index []piece

func (ix index) total() int64 {
	if len(ix) == 0 {
		return 0
	}
	last := ix[len(ix)-1]
	return last.from + last.count - 1
}

func (ix index) bytes() (n int64) {
	for _, p := range ix {
		n += p.bytes
	}
	return n
}

func (ix index) full() bool { return len(ix) > 0 && ix[len(ix)-1].full }

// kept is the number of the last line kept of an engine attempt.
func (ix index) kept(engineAttempt int) (to int64) {
	for _, p := range ix {
		if p.ea == engineAttempt {
			to = max(to, p.eaTo)
		}
	}
	return to
}

// at is the position of the piece that holds line no, or len(ix).
func (ix index) at(no int64) int {
	return sort.Search(len(ix), func(i int) bool { return ix[i].from+ix[i].count > no })
}

// index lists one log. ErrNotFound says that an object went while it was listed.
func (s *Store) index(ctx context.Context, prefix string) (index, error) {
	var all []piece
	it := s.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		obj, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil, ErrNotFound // a folder is listed entry by entry
		}
		if err != nil {
			return nil, fmt.Errorf("artifact: list log: %w", err)
		}
		if p, ok := parsePiece(strings.TrimPrefix(obj.Key, prefix)); ok {
			all = append(all, p)
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].from != all[j].from {
			return all[i].from < all[j].from
		}
		return all[i].count > all[j].count
	})
	ix := index(all[:0])
	next := int64(1)
	for _, p := range all {
		if p.from == next { // others are what a larger piece has replaced
			ix = append(ix, p)
			next += p.count
		}
	}
	if !s.seen.reaches(prefix, ix.total()) {
		return nil, ErrNotFound // neither the piece that was replaced nor the one that replaced it
	}
	return ix, nil
}

// lengths remembers how long logs were, because a folder is not listed in one
// moment: a listing beside a writer may miss both a piece that goes and the one
// that comes. What it forgets is at worst shown shorter once.
type lengths struct {
	mu sync.Mutex
	of map[string]int64
}

const maxLengths = 4096

// reaches reports whether total is no less than what is known, and remembers it.
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

// lines reads one piece. ErrNotFound says that a larger one has replaced it.
func (s *Store) lines(ctx context.Context, prefix string, p piece) ([]Line, error) {
	key := p.key(prefix)
	if ls, ok := s.pieces.get(key); ok {
		return ls, nil
	}
	body, err := s.bucket.ReadAll(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("artifact: read log: %w", err)
	}
	ls := make([]Line, 0, p.count)
	dec := json.NewDecoder(bytes.NewReader(body))
	for dec.More() {
		var l Line
		if err := dec.Decode(&l); err != nil {
			return nil, fmt.Errorf("artifact: read log: %w", err)
		}
		ls = append(ls, l)
	}
	if int64(len(ls)) != p.count {
		return nil, fmt.Errorf("artifact: read log: %d lines where the key says %d", len(ls), p.count)
	}
	s.pieces.put(key, ls, len(body))
	return ls, nil
}

func (s *Store) write(ctx context.Context, prefix string, p piece, ls []Line) error {
	var buf bytes.Buffer
	w := bufio.NewWriter(&buf)
	enc := json.NewEncoder(w)
	for _, l := range ls {
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("artifact: write log: %w", err)
		}
	}
	_ = w.Flush()
	p.bytes = int64(buf.Len())
	if err := s.bucket.WriteAll(ctx, p.key(prefix), buf.Bytes(), &blob.WriterOptions{ContentType: "application/x-ndjson"}); err != nil {
		return fmt.Errorf("artifact: write log: %w", err)
	}
	s.pieces.put(p.key(prefix), ls, buf.Len())
	return nil
}

// pieceCache holds the pieces used last, so that the end of a log that is
// followed is not read back for each reader.
type pieceCache struct {
	mu    sync.Mutex
	max   int
	size  int
	order list.List // of *cachedPiece, the newest in front
	byKey map[string]*list.Element
}

type cachedPiece struct {
	key   string
	lines []Line
	size  int
}

func (c *pieceCache) get(key string) ([]Line, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cachedPiece).lines, true
}

func (c *pieceCache) put(key string, ls []Line, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = map[string]*list.Element{}
	}
	if e, ok := c.byKey[key]; ok {
		c.drop(e)
	}
	c.byKey[key] = c.order.PushFront(&cachedPiece{key: key, lines: ls, size: size})
	c.size += size
	for c.size > c.max && c.order.Len() > 0 {
		c.drop(c.order.Back())
	}
}

func (c *pieceCache) drop(e *list.Element) {
	p := c.order.Remove(e).(*cachedPiece)
	delete(c.byKey, p.key)
	c.size -= p.size
}
