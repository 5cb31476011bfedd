package temporal

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Connection describes the connection to one namespace of a Temporal server. A server on this machine needs only
// HostPort and Namespace.
type Connection struct {
	HostPort, Namespace string
	// TLS holds the TLS settings; nil means plain text. Its callbacks may read certificates in each handshake.
	TLS *tls.Config
	// APIKey returns the API key of each call; nil means none. Several goroutines call it.
	APIKey func() string
	// Dial opens the connections to a server that cannot be reached by HostPort; nil connects to HostPort. Several
	// goroutines call it.
	Dial func(ctx context.Context) (net.Conn, error)
	// Payloads encrypts the payloads that the server stores; nil stores them in clear.
	Payloads *Payloads
	// Trace begins the span of a call of the server. method is the full name of gRPC. The client calls end with the code
	// of a failure, or with "". nil makes no spans.
	Trace func(ctx context.Context, method string) (_ context.Context, end func(failure string))
}

// options returns the options of a client for this connection.
func (to Connection) options(log *slog.Logger) client.Options {
	o := client.Options{HostPort: to.HostPort, Namespace: to.Namespace, Logger: newSDKLogger(log)}
	if onThisMachine(to.HostPort) {
		o.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	o.ConnectionOptions.TLS, o.ConnectionOptions.TLSDisabled = to.TLS, to.TLS == nil
	if to.Dial != nil {
		o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions,
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return to.Dial(ctx) }))
	}
	if to.Trace != nil {
		o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions,
			grpc.WithChainUnaryInterceptor(to.traced))
	}
	if to.APIKey != nil {
		o.Credentials = client.NewAPIKeyDynamicCredentials(func(context.Context) (string, error) {
			return to.APIKey(), nil
		})
	}
	if to.Payloads != nil {
		o.DataConverter, o.FailureConverter = to.Payloads.converter(), to.Payloads.failures()
	}
	return o
}

// traced makes a span of each call.
func (to Connection) traced(ctx context.Context, method string, req, reply any, c *grpc.ClientConn,
	invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
	ctx, end := to.Trace(ctx, method)
	err := invoke(ctx, method, req, reply, c, o...)
	switch code := status.Code(err); code {
	case codes.OK, codes.Canceled, codes.NotFound, codes.AlreadyExists, codes.InvalidArgument, codes.FailedPrecondition:
		end("") // an answer
	default:
		end(code.String())
	}
	return err
}

// Connect returns a client. The client connects at its first call, so that a dvt server can start, read and stream
// while Temporal is down.
func Connect(to Connection, log *slog.Logger) (Client, error) {
	logGRPC(log)
	made, err := client.NewLazyClient(to.options(log))
	if err != nil {
		return nil, fmt.Errorf("temporal: client: %w", err)
	}
	return made, nil
}

// Dial is Connect in plain text without keys, for a server on this machine.
func Dial(hostPort, namespace string, log *slog.Logger) (Client, error) {
	return Connect(Connection{HostPort: hostPort, Namespace: namespace}, log)
}

// onThisMachine reports whether an address is on the loopback. The SDK compresses requests by default, and without a
// network that only costs processor time.
func onThisMachine(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
