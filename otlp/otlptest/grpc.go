package otlptest

import (
	"context"
	"net"
	"net/http"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NewGRPC starts a receiver that speaks OTLP over gRPC and stops with the test. Answer sets the status of a call in
// HTTP: 400 is InvalidArgument, 429 ResourceExhausted, and any other failure Unavailable.
func NewGRPC(t testing.TB) *Receiver {
	t.Helper()
	r := New(t)
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.URL = "http://" + ln.Addr().String()
	srv := grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(srv, collector{receiver: r})
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
	return r
}

type collector struct {
	coltracepb.UnimplementedTraceServiceServer
	receiver *Receiver
}

// Export implements the service of OTLP.
func (c collector) Export(_ context.Context, in *coltracepb.ExportTraceServiceRequest) (
	*coltracepb.ExportTraceServiceResponse, error) {
	switch c.receiver.receive(in) {
	case http.StatusOK:
		return &coltracepb.ExportTraceServiceResponse{}, nil
	case http.StatusBadRequest:
		return nil, status.Error(codes.InvalidArgument, "refused by the test")
	case http.StatusTooManyRequests:
		return nil, status.Error(codes.ResourceExhausted, "refused by the test")
	}
	return nil, status.Error(codes.Unavailable, "refused by the test")
}
