package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// sinks are the systems to which a deployment sends spans, events and alerts. They keep all that they get.
type sinks struct {
	spans, deliveries recorder
	receiver          *httptest.Server
	list              net.Listener
}

func newSinks(t *testing.T) *sinks {
	t.Helper()
	s := &sinks{}
	s.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _ = s.spans.Write(unpacked(body))
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.receiver.Close)
	var err error
	s.list, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = s.list.Close() })
	go func() {
		for {
			conn, err := s.list.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(&s.deliveries, conn)
			}()
		}
	}()
	return s
}

// settings returns the lines of the settings file that send everything to the sinks.
func (s *sinks) settings(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "destinations.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "destinations:\n  - {name: log, kind: syslog, url: \"tcp://%s\", "+
		"allowPrivate: true}\n", s.list.Addr()), 0o600))
	return []string{"destinations: " + file, "trace-runs: 1"}
}

// traced starts the processes of a deployment again with the sink of spans.
func (p *deployment) traced(t *testing.T, s *sinks) {
	t.Helper()
	for _, of := range []**process{&p.serverA, &p.serverB, &p.control, &p.data} {
		was := *of
		was.terminate()
		*of = spawn(t, was.name, append(slices.Clone(was.env), "OTEL_EXPORTER_OTLP_ENDPOINT="+s.receiver.URL), was.args...)
	}
	waitUntilReady(t, p.urlA)
	waitUntilReady(t, p.urlB)
}
