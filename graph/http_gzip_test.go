package graph_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A long answer is in gzip for who accepts it, says the same, and short ones are as they are.
func TestHTTP_LongAnswersInGzip(t *testing.T) {
	t.Parallel()
	a := serve(t, answering())
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "%s%d: health { status } ", strings.Repeat("long", 32), i)
	}
	long := request("{ "+b.String()+"}", nil)
	plain := a.do(http.MethodPost, "/", long, "Accept-Encoding", "identity")
	if plain.status != http.StatusOK || len(plain.body) < 4<<10 {
		t.Fatalf("%d %s", plain.status, plain.body)
	}
	for accepted, want := range map[string]string{
		"gzip": "gzip", "br, gzip;q=0.5": "gzip", "identity": "", "br": "", "gzip;q=0": "",
	} {
		got := a.do(http.MethodPost, "/", long, "Accept-Encoding", accepted)
		if got.header.Get("Content-Encoding") != want || got.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %v", accepted, got.header)
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
				t.Errorf("%q: %d bytes of %d, %v", accepted, len(body), len(read), err)
			}
			body = strings.TrimSpace(string(read))
		}
		if body != plain.body {
			t.Errorf("%q: another answer", accepted)
		}
	}
	if got := a.do(http.MethodPost, "/", request(queryHealth, nil), "Accept-Encoding", "gzip"); got.header.Get(
		"Content-Encoding") != "" || got.body != healthy {
		t.Errorf("a short answer: %v %s", got.header, got.body)
	}
}
