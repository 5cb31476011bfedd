package graph

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// compressFrom is the shortest answer that is compressed: a shorter one fits into a
// few packets as it is.
const compressFrom = 4 << 10

// AcceptsGzip reports whether who sent r can read gzip (RFC 9110, 12.5.3).
func AcceptsGzip(r *http.Request) bool {
	otherwise := false
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, weighed := strings.Cut(part, ";")
		_, q, _ := strings.Cut(weight, "=")
		value, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		wanted := !weighed || err == nil && value > 0
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip":
			return wanted
		case "*":
			otherwise = wanted
		}
	}
	return otherwise
}

// squeezers write gzip as fast as it can be: an answer is written once and read once.
var squeezers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is one of gzip's
	}
	return z
}}

// compressed is a body in gzip.
func compressed(body []byte) []byte {
	z := squeezers.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool has no others
	defer squeezers.Put(z)
	b := bytes.NewBuffer(make([]byte, 0, len(body)/8))
	z.Reset(b)
	_, _ = z.Write(body) // a buffer takes everything
	_ = z.Close()
	return b.Bytes()
}

// send writes the body of an answer, in gzip when it is long and x accepts that.
func (x *exchange) send(status int, body []byte) {
	h := x.w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(body) >= compressFrom && AcceptsGzip(x.r) {
		h.Set("Content-Encoding", "gzip")
		body = compressed(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body)
}
