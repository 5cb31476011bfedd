package server

import (
	"context"
	"crypto/rand"
	"net/http"
)

// requestIDHeader names a request to people and to logs. A proxy or a client may choose the id.
const requestIDHeader = "X-Request-Id"

// maxRequestID is the maximum length of an id that a caller chooses.
const maxRequestID = 64

type requestIDKey struct{}

// withRequestID gives each request an id, which the answer repeats: that of the caller if it is a plain word, else a new
// one. An id that is too long or has other characters is replaced, because it is copied into logs.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !isRequestID(id) {
			id = rand.Text()
		}
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

// requestID returns the id of the request that ctx belongs to, or "".
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

func isRequestID(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxRequestID
}
