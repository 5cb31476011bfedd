package artifact

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A segment is a piece that replaces up to segmentPieces small ones, so that a long log has few objects. Its object has
// the frames of the replaced pieces as they were, and a footer with a table of them. The footer is a frame that
// decoders of zstd skip, so that the whole object is still one stream of zstd.
const (
	segmentPieces = 16
	segmentBytes  = 8 << 20
	// footerMagic begins a frame that decoders skip.
	footerMagic = 0x184D2A5D
	footerHead  = 8 // bytes: the magic number and the length of the rest
	footerSum   = 4 // bytes of the checksum at its end
	// segmentShare is the part of the limits of an attempt that one segment may have. Lines are dropped by pieces.
	segmentShare = 32
)

// frame is a part of a piece that can be read alone.
type frame struct {
	from, count   int64 // lines
	bytes, stored int64
	offset        int64 // in the object
}

func (f frame) to() int64 { return f.from + f.count - 1 }

func (f frame) cacheKey(prefix string, p piece) string {
	return fmt.Sprintf("%s#%d", p.key(prefix), f.offset)
}

// frames returns the frames of a piece. It reads the footer of a segment.
func (s *Store) frames(ctx context.Context, prefix string, p piece) ([]frame, error) {
	if p.footer == 0 {
		return []frame{{from: p.from, count: p.count, bytes: p.bytes, stored: p.stored}}, nil
	}
	if fs, ok := s.footers.Get(p.key(prefix)); ok {
		return fs, nil
	}
	body, err := s.bucket.readRange(ctx, p.key(prefix), p.stored-p.footer, p.footer)
	if err != nil {
		return nil, err
	}
	fs, ok := parseFooter(body, p)
	if !ok {
		return nil, p.tornError("the table of their object has other bytes")
	}
	s.footers.Add(p.key(prefix), fs)
	return fs, nil
}

// footerOf returns the footer for consecutive frames.
func footerOf(fs []frame) []byte {
	var table []byte
	for _, f := range fs {
		table = binary.AppendUvarint(table, uint64(f.count))
		table = binary.AppendUvarint(table, uint64(f.bytes))
		table = binary.AppendUvarint(table, uint64(f.stored))
	}
	out := binary.LittleEndian.AppendUint32(nil, footerMagic)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(table)+footerSum))
	out = append(out, table...)
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(table))
}

// parseFooter reads the footer of a segment; false when it does not fit the segment.
func parseFooter(body []byte, p piece) (fs []frame, ok bool) {
	if len(body) < footerHead+footerSum || binary.LittleEndian.Uint32(body) != footerMagic {
		return nil, false
	}
	table, sum := body[footerHead:len(body)-footerSum], body[len(body)-footerSum:]
	if binary.LittleEndian.Uint32(sum) != crc32.ChecksumIEEE(table) {
		return nil, false
	}
	next := frame{from: p.from}
	var bytes int64
	for len(table) > 0 {
		for _, v := range []*int64{&next.count, &next.bytes, &next.stored} {
			u, n := binary.Uvarint(table)
			if n <= 0 {
				return nil, false
			}
			*v, table = int64(u), table[n:]
		}
		fs = append(fs, next)
		bytes += next.bytes
		next = frame{from: next.from + next.count, offset: next.offset + next.stored}
	}
	return fs, next.from == p.to()+1 && bytes == p.bytes && next.offset == p.stored-p.footer
}

// mergeable returns the first pieces before the last one that a segment should replace; nil if there are too few.
func (ix index) mergeable(l Limits) []piece {
	most := min(segmentBytes, l.AttemptBytes/segmentShare)
	mostLines := l.AttemptLines / segmentShare
	for first := 0; first < len(ix)-1; {
		var lines, bytes int64
		last := first
		for ; last < len(ix)-1 && last-first < segmentPieces; last++ {
			p := ix[last]
			if p.footer > 0 || p.plain || p.torn || p.engineAttempt != ix[first].engineAttempt ||
				last > first && ix.hole(last) != (Missing{}) || bytes+p.bytes > most || lines+p.count > mostLines {
				break
			}
			lines, bytes = lines+p.count, bytes+p.bytes
		}
		full := last < len(ix)-1 && (last-first == segmentPieces || bytes+ix[last].bytes > most)
		if last-first > 1 && full {
			return ix[first:last]
		}
		first = max(last, first+1)
	}
	return nil
}

// merge replaces pieces of a log by a segment. A process that is killed meanwhile leaves the pieces and the segment,
// and readers prefer the segment.
func (s *Store) merge(ctx context.Context, prefix string, small []piece) error {
	bodies := make([][]byte, len(small))
	errs := make(chan error, len(small))
	for i, p := range small {
		go func() {
			var err error
			bodies[i], err = s.bucket.readRange(ctx, p.key(prefix), 0, -1)
			if err == nil && int64(len(bodies[i])) != p.stored {
				err = p.tornError("their object is too short")
			}
			if err == nil { // a damaged piece must not become a part of a segment
				_, err = p.unpack(bodies[i], p.bytes)
			}
			errs <- err
		}()
	}
	var failure error
	for range small {
		if err := <-errs; err != nil {
			failure = err
		}
	}
	if failure != nil {
		return failure
	}
	last := small[len(small)-1]
	segment := piece{from: small[0].from, engineAttempt: last.engineAttempt, eaTo: last.eaTo}
	var fs []frame
	var object []byte
	for i, p := range small {
		fs = append(fs, frame{count: p.count, bytes: p.bytes, stored: p.stored})
		segment.count += p.count
		segment.bytes += p.bytes
		segment.resumes = max(segment.resumes, p.resumes)
		object = append(object, bodies[i]...)
	}
	footer := footerOf(fs)
	object = append(object, footer...)
	segment.stored, segment.footer = int64(len(object)), int64(len(footer))
	if err := s.write(ctx, prefix, segment, object); err != nil {
		return err
	}
	s.remove(ctx, prefix, small)
	return nil
}

// remove deletes pieces that nobody needs. One that stays only takes space, and the next writer deletes it.
func (s *Store) remove(ctx context.Context, prefix string, unneeded []piece) {
	done := make(chan struct{})
	for _, p := range unneeded {
		go func() {
			_ = s.bucket.Delete(ctx, p.key(prefix))
			done <- struct{}{}
		}()
	}
	for range unneeded {
		<-done
	}
}
