package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"gocloud.dev/blob"
)

// A piece is an object with consecutive lines of one engine attempt. Its key has all data for finding and
// deduplicating lines, so that listing the keys gives the index of a log. Objects never change. A small last piece is
// replaced by a larger one that starts at the same line, several pieces are replaced by a segment, and pieces in the
// middle of a log that exceeds its limits are deleted.
type piece struct {
	from          int64 // No of its first line
	count         int64
	bytes         int64 // of its lines before they are compressed
	engineAttempt int
	eaTo          int64 // number of its last line within the engine attempt
	// resumes is the number of the first line after the hole when the piece was written; 0 or 1 if nothing was dropped.
	resumes int64
	stored  int64 // bytes of the object
	footer  int64 // bytes of the table at the end of a segment; 0 for other pieces
	plain   bool  // written by an earlier version: not compressed
	torn    bool  // the object has another size, or is missing
}

const (
	// plainKey is the form of the keys of earlier versions.
	plainKey = "%09d_%d_%d_%d_%d_%d.jsonl"
	pieceKey = "%09d_%d_%d_%d_%d_%d_%d_%d.zst"
	// A last piece below both limits is replaced by a larger one when more lines arrive.
	pieceLines = 256
	pieceBytes = 64 << 10
)

func (p piece) key(prefix string) string {
	if p.plain {
		return prefix + fmt.Sprintf(plainKey, p.from, p.count, p.bytes, p.engineAttempt, p.eaTo, p.resumes)
	}
	return prefix + fmt.Sprintf(pieceKey, p.from, p.count, p.bytes, p.engineAttempt, p.eaTo, p.resumes, p.stored, p.footer)
}

// to returns the No of its last line.
func (p piece) to() int64 { return p.from + p.count - 1 }

// eaFrom returns the number of its first line within the engine attempt.
func (p piece) eaFrom() int64 { return p.eaTo - p.count + 1 }

// parsePiece reads a key. size is that of the object.
func parsePiece(base string, size int64) (piece, bool) {
	var p piece
	n, err := fmt.Sscanf(base, pieceKey, &p.from, &p.count, &p.bytes, &p.engineAttempt, &p.eaTo, &p.resumes, &p.stored,
		&p.footer)
	if err != nil || n != 8 {
		p = piece{plain: true}
		n, err = fmt.Sscanf(base, plainKey, &p.from, &p.count, &p.bytes, &p.engineAttempt, &p.eaTo, &p.resumes)
		p.stored = p.bytes
		if err != nil || n != 6 {
			return p, false
		}
	}
	p.torn = p.stored != size
	return p, p.from > 0 && p.count > 0 && p.key("") == base
}

// torn returns ErrTorn with the lines that cannot be read.
func (p piece) tornError(why string) error {
	return fmt.Errorf("%w: lines %d to %d of the log: %s", ErrTorn, p.from, p.to(), why)
}

// lines returns at most limit lines of a piece, from the line with a number. It reads only the frames of a segment that
// have them. ErrNotFound means that a larger piece replaced it.
func (s *Store) lines(ctx context.Context, prefix string, p piece, from int64, limit int) ([]Line, error) {
	if p.torn {
		return nil, p.tornError("their object is missing or has another size")
	}
	frames, err := s.frames(ctx, prefix, p)
	if err != nil {
		return nil, err
	}
	from = max(from, p.from)
	var out []Line
	for first := 0; first < len(frames) && len(out) < limit; {
		f := frames[first]
		if f.to() < from {
			first++
			continue
		}
		if ls, ok := s.pieces.get(f.cacheKey(prefix, p)); ok {
			out = append(out, ls[max(from-f.from, 0):]...)
			first++
			continue
		}
		// One request for all frames that follow each other and are not cached.
		last := first
		for last+1 < len(frames) && frames[last].to()-from+1 < int64(limit) &&
			!s.pieces.has(frames[last+1].cacheKey(prefix, p)) {
			last++
		}
		if err := s.loadFrames(ctx, prefix, p, frames[first:last+1], func(f frame, ls []Line) {
			out = append(out, ls[max(from-f.from, 0):]...)
		}); err != nil {
			return nil, err
		}
		first = last + 1
	}
	return out[:min(len(out), limit)], nil
}

// loadFrames reads consecutive frames of a piece by one request, and caches their lines.
func (s *Store) loadFrames(ctx context.Context, prefix string, p piece, frames []frame,
	visit func(frame, []Line)) error {
	first, end := frames[0], frames[len(frames)-1]
	stored, err := s.bucket.readRange(ctx, p.key(prefix), first.offset, end.offset+end.stored-first.offset)
	if err != nil {
		return err
	}
	for _, f := range frames {
		part := stored[min(f.offset-first.offset, int64(len(stored))):]
		if int64(len(part)) < f.stored {
			return p.tornError("their object is too short")
		}
		raw, err := p.unpack(part[:f.stored], f.bytes)
		if err != nil {
			return err
		}
		ls, err := p.decode(raw, f.count)
		if err != nil {
			return err
		}
		s.pieces.put(f.cacheKey(prefix, p), ls, len(raw))
		visit(f, ls)
	}
	return nil
}

// unpack returns the lines of stored bytes as JSON, of size bytes.
func (p piece) unpack(stored []byte, size int64) ([]byte, error) {
	if p.plain {
		return stored, nil
	}
	raw, err := unpack(stored, size)
	if err != nil {
		return nil, p.tornError("their object has other bytes")
	}
	return raw, nil
}

// decode parses count lines.
func (p piece) decode(raw []byte, count int64) ([]Line, error) {
	ls := make([]Line, 0, count)
	dec := json.NewDecoder(bytes.NewReader(raw))
	for dec.More() {
		var l Line
		if dec.Decode(&l) != nil {
			return nil, p.tornError("their object has other bytes")
		}
		ls = append(ls, l)
	}
	if int64(len(ls)) != count {
		return nil, p.tornError(fmt.Sprintf("their object has %d lines", len(ls)))
	}
	return ls, nil
}

// body reads the lines of a whole piece as JSON; errors as for lines.
func (s *Store) body(ctx context.Context, prefix string, p piece) ([]byte, error) {
	if p.torn {
		return nil, p.tornError("their object is missing or has another size")
	}
	stored, err := s.bucket.readRange(ctx, p.key(prefix), 0, -1)
	if err != nil {
		return nil, err
	}
	if int64(len(stored)) != p.stored {
		return nil, p.tornError("their object is too short")
	}
	raw, err := p.unpack(stored, p.bytes)
	if err != nil {
		return nil, err
	}
	if p.plain && int64(bytes.Count(raw, []byte{'\n'})) != p.count {
		return nil, p.tornError("their object has other bytes")
	}
	return raw, nil
}

// encode returns the JSON of lines.
func encode(ls []Line) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, l := range ls {
		if err := enc.Encode(l); err != nil {
			return nil, fmt.Errorf("artifact: write log: %w", err)
		}
	}
	return buf.Bytes(), nil
}

// write stores a piece.
func (s *Store) write(ctx context.Context, prefix string, p piece, stored []byte) error {
	return failed("write log", s.bucket.write(ctx, p.key(prefix), bytes.NewReader(stored),
		blob.WriterOptions{ContentType: "application/zstd"}))
}
