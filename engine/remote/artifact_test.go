package remote_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/run"
)

// sink is a journal that reads the bytes of artifacts.
type sink struct {
	engine.AttemptJournal
	bodies []string
	refs   []run.ArtifactRef
	err    error
}

func (s *sink) Evidence(_ context.Context, e engine.Evidence) error {
	body := string(e.Artifact.Body)
	if e.Artifact.Open != nil {
		r, err := e.Artifact.Open()
		if err != nil {
			return err
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if _, err := e.Artifact.Open(); err == nil {
			return errors.New("the bytes were given twice")
		}
		body = string(raw)
	}
	s.bodies, s.refs = append(s.bodies, body), append(s.refs, e.Artifact.Ref)
	return s.err
}

// serveSink serves a journal to the token good.
func serveSink(t *testing.T, j engine.AttemptJournal) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(remote.Path+"/", &remote.Server{
		Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(token string) (engine.AttemptJournal, error) {
			if token != "good" {
				return nil, errors.New("unknown")
			}
			return j, nil
		},
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func artifactOf(body []byte) engine.Evidence {
	sum := sha256.Sum256(body)
	return engine.Evidence{RunID: "r1", StepID: "s", Key: "k1.z", Artifact: &engine.ArtifactBody{
		Ref: run.ArtifactRef{URI: "artifact:x", Kind: run.KindCustom, SHA256: hex.EncodeToString(sum[:]),
			SizeBytes: int64(len(body))},
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}}
}

func TestArtifact_IsAStream(t *testing.T) {
	t.Parallel()
	s := &sink{}
	c := client(t, serveSink(t, s).URL, "good")
	body := []byte(strings.Repeat("line\n\x00", 4<<20/6))
	for range 2 {
		if err := c.Evidence(t.Context(), artifactOf(body)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.bodies) != 2 || s.bodies[0] != string(body) || s.refs[0] != artifactOf(body).Artifact.Ref {
		t.Errorf("the journal got %d bodies, want the artifact twice", len(s.bodies))
	}
	s.err = run.ErrSchema
	if err := c.Evidence(t.Context(), artifactOf(body)); !errors.Is(err, run.ErrSchema) {
		t.Errorf("a refused artifact: %v, want ErrSchema", err)
	}
}

// A server of an earlier version knows no streams.
func TestArtifact_GoesToAnOldServerInOnePiece(t *testing.T) {
	t.Parallel()
	s := &sink{}
	now := serveSink(t, s)
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/artifact") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"code":"BAD_USER_INPUT"}`)
			return
		}
		now.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(old.Close)
	if err := client(t, old.URL, "good").Evidence(t.Context(), artifactOf([]byte("body"))); err != nil {
		t.Fatal(err)
	}
	if len(s.bodies) != 1 || s.bodies[0] != "body" {
		t.Errorf("the journal got %q, want the body", s.bodies)
	}
}

func TestArtifact_RefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	server := serveSink(t, &sink{})
	for name, body := range map[string]string{
		"no line": `{"artifact":{"ref":{}}}`, "no artifact": "{}\n", "no JSON": "x\n",
		"lines too":   `{"artifact":{},"lines":[{}]}` + "\n",
		"a long line": `{"runId":"` + strings.Repeat("x", 70<<10) + "\"}\n",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/engine/journal/artifact",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer good")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s, want 400", name, res.Status)
		}
	}
	err := client(t, server.URL, "bad").Evidence(t.Context(), artifactOf([]byte("x")))
	if !errors.Is(err, engine.ErrDenied) {
		t.Errorf("an unknown token: %v, want ErrDenied", err)
	}
}
