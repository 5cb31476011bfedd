package artifact_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
)

// A bucket that answers without an end is an error, and does not fill the memory.
func TestReadObject_AnAnswerWithoutAnEndIsRefused(t *testing.T) {
	t.Parallel()
	var sent int
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<16)
		for sent = 0; sent < 64<<20; sent += len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}))
	t.Cleanup(srv.Close)
	address := "s3://plans?region=eu-1&anonymous=true&use_path_style=true&endpoint=" + srv.URL
	body, err := artifact.ReadObject(t.Context(), []string{address}, "s3://plans/shop.json", 1000)
	if !errors.Is(err, artifact.ErrTorn) && !errors.Is(err, artifact.ErrTooLarge) {
		t.Errorf("ReadObject of a body without an end: %d bytes, %v; want an error", len(body), err)
	}
	if len(body) > 2000 {
		t.Errorf("%d bytes of a body without an end were read, want at most 1,001", len(body))
	}
}
