package graph_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Long answers are compressed for clients that accept gzip, with the same content. Short answers are not.
func TestHTTP_LongAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "%s%d: health { status } ", strings.Repeat("long", 32), i)
	}
	long := request("{ "+b.String()+"}", nil)
	plain := a.do(http.MethodPost, "/", long, "Accept-Encoding", "identity")
	if plain.status != http.StatusOK || len(plain.body) < 4<<10 {
		t.Fatalf("answered %d %s, want 200 with at least 4 KiB", plain.status, plain.body)
	}
	for accepted, want := range map[string]string{
		"gzip": "gzip", "br, gzip;q=0.5": "gzip", "identity": "", "br": "", "gzip;q=0": "",
	} {
		got := a.do(http.MethodPost, "/", long, "Accept-Encoding", accepted)
		if got.header.Get("Content-Encoding") != want || got.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: headers %v, want Content-Encoding %q and Vary", accepted, got.header, want)
			continue
		}
		body := got.body
		if want == "gzip" {
			z, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatalf("%q: %v", accepted, err)
			}
			read, err := io.ReadAll(z)
			if err != nil || len(body) > len(read)/4 {
				t.Errorf("Accept-Encoding %q: %d bytes for %d (%v), want at most a quarter", accepted, len(body), len(read), err)
			}
			body = strings.TrimSpace(string(read))
		}
		if body != plain.body {
			t.Errorf("Accept-Encoding %q: the body differs from the uncompressed one", accepted)
		}
	}
	if got := a.do(http.MethodPost, "/", request(queryHealth, nil), "Accept-Encoding", "gzip"); got.header.Get(
		"Content-Encoding") != "" || got.body != healthy {
		t.Errorf("a short answer has headers %v and body %s, want it uncompressed", got.header, got.body)
	}
}
