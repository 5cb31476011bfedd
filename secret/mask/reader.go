package mask

import "io"

const readSize = 64 << 10

// Reader returns a reader of r with Hidden in place of each value. It holds bytes back only while they may be the
// beginning of a value, so a line is passed on at once. It reads r in pieces of at most 64 KiB.
func (m *Masker) Reader(r io.Reader) io.Reader {
	if m.window == 0 {
		return r
	}
	return &reader{m: m, from: r, piece: make([]byte, readSize)}
}

type reader struct {
	m     *Masker
	from  io.Reader
	piece []byte
	held  []byte // read and not decided, behind the bytes that are sent
	data  lines  // of held
	// sent is how many bytes at the start of held were passed on. They may begin a value that goes on in the next line.
	sent int
	// hidden is how many bytes at the start of held belong to a value whose mask is written.
	hidden int
	out    []byte
	err    error
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.from.Read(r.piece)
		r.held = append(r.held, r.piece[:n]...)
		r.err = err
		r.decide()
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// decide moves what is decided from held to out.
func (r *reader) decide() {
	r.data.set(r.held)
	out, at, hidden := r.out[:0], 0, r.hidden
	limit, open := len(r.held), len(r.held)
	if r.err == nil {
		limit, open = r.m.partial(&r.data)
	}
	r.m.each(&r.data, func(start, end int) {
		if start > limit {
			return // a longer value may begin before it
		}
		if start > hidden || hidden == 0 { // else it continues a value whose mask is written
			if begin := max(at, hidden, r.sent); begin < start {
				out = append(out, r.held[begin:start]...)
			}
			out = append(out, Hidden...)
		}
		at, hidden = max(at, end), max(hidden, end)
	})
	begin := max(at, hidden, r.sent)
	if begin < limit {
		out = append(out, r.held[begin:limit]...)
	}
	r.sent, r.hidden = max(0, max(limit, r.sent)-open), max(0, hidden-open)
	r.held = append(r.held[:0], r.held[open:]...)
	r.out = out
}
