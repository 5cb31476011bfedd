package server

import (
	"log/slog"
	"net/http"
	"slices"
)

// codecPath is the path of the codec server, which Temporal's UI and CLI call.
const codecPath = "/engine/codec"

// maxPayloads is the maximum size of a request, in bytes. Temporal's own responses are not larger.
const maxPayloads = 8 << 20

// codecRoutes adds the codec server, which decodes payloads for operators. It does not encode, because only dvt writes
// payloads.
func (p *parts) codecRoutes(mux *http.ServeMux) {
	if p.payloads == nil {
		return
	}
	decoder := p.payloads.Decoder()
	mux.HandleFunc("POST "+codecPath+"/decode", func(w http.ResponseWriter, r *http.Request) {
		if !p.codecOrigin(w, r) {
			http.Error(w, "the setting codec-origins does not name this origin", http.StatusForbidden)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Del("Cookie") // a browser adds the session to requests of any page, so only a token proves intent
		who, err := p.callers.Caller(r)
		if err == nil {
			err = p.control.MayReadPayloads(r.Context(), who)
		}
		if refusedHTTP(w, err) {
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		p.log.InfoContext(r.Context(), "the codec server decodes payloads for a principal", slog.String("principal", who.ID),
			slog.String("tenantId", who.TenantID))
		r.Body = http.MaxBytesReader(w, r.Body, maxPayloads)
		decoder.ServeHTTP(w, r)
	})
	mux.HandleFunc("OPTIONS "+codecPath+"/decode", func(w http.ResponseWriter, r *http.Request) {
		if p.codecOrigin(w, r) {
			w.Header().Set("Access-Control-Allow-Methods", "POST")
			w.Header().Set("Access-Control-Allow-Headers", "authorization, content-type, x-namespace")
			w.Header().Set("Access-Control-Max-Age", "600")
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// codecOrigin reports whether the page that sent a request may read the answer, and sets the CORS headers for it.
// Programs send no origin and may read it.
func (p *parts) codecOrigin(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	w.Header().Set("Vary", "Origin")
	if origin == "" {
		return true
	}
	if !slices.Contains(p.cfg.CodecOrigins, origin) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	return true
}
