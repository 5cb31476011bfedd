package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// A piece is an object with consecutive lines of one engine attempt. Its key has all data for finding and
// deduplicating lines, so that listing the keys gives the index of a log. Objects never change. A small last piece is
// replaced by a larger one that starts at the same line, and pieces in the middle of a log that exceeds its limits
// are deleted.
type piece struct {
	from          int64 // No of its first line
	count         int64
	bytes         int64
	engineAttempt int
	eaTo          int64 // number of its last line within the engine attempt
	// resumes is the number of the first line after the hole when the piece was written; 0 or 1 if nothing was dropped.
	resumes int64
}

const (
	pieceKey = "%09d_%d_%d_%d_%d_%d.jsonl"
	// A last piece below both limits is replaced by a larger one when more lines arrive.
	pieceLines = 256
	pieceBytes = 64 << 10
)

func (p piece) key(prefix string) string {
	return prefix + fmt.Sprintf(pieceKey, p.from, p.count, p.bytes, p.engineAttempt, p.eaTo, p.resumes)
}

// to returns the No of its last line.
func (p piece) to() int64 { return p.from + p.count - 1 }

func parsePiece(base string) (piece, bool) {
	var p piece
	n, err := fmt.Sscanf(base, pieceKey, &p.from, &p.count, &p.bytes, &p.engineAttempt, &p.eaTo, &p.resumes)
	return p, err == nil && n == 6 && p.from > 0 && p.count > 0 && p.key("") == base
}

// lines reads one piece. ErrNotFound means that a larger one replaced it.
func (s *Store) lines(ctx context.Context, prefix string, p piece) ([]Line, error) {
	key := p.key(prefix)
	if ls, ok := s.pieces.get(key); ok {
		return ls, nil
	}
	body, err := s.body(ctx, prefix, p)
	if err != nil {
		return nil, err
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

// body reads the stored form of one piece; errors as for lines.
func (s *Store) body(ctx context.Context, prefix string, p piece) ([]byte, error) {
	body, err := s.bucket.ReadAll(ctx, p.key(prefix))
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("artifact: read log: %w", err)
	}
	return body, nil
}

// encode returns the stored form of lines.
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

func (s *Store) write(ctx context.Context, prefix string, p piece, ls []Line, body []byte) error {
	if err := s.bucket.WriteAll(ctx, p.key(prefix), body,
		&blob.WriterOptions{ContentType: "application/x-ndjson"}); err != nil {
		return fmt.Errorf("artifact: write log: %w", err)
	}
	s.pieces.put(p.key(prefix), ls, len(body))
	return nil
}
