package temporal

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// Connection says how to reach one namespace of a server. Only HostPort and Namespace are needed, for a server on this
// machine.
type Connection struct {
	HostPort, Namespace string
	// TLS is nil for plain text. It may read its certificates anew in each handshake.
	TLS *tls.Config
	// APIKey returns the key that each call carries, nil for none.
	APIKey func() string
	// Payloads encrypt what the server stores, nil for none.
	Payloads *Payloads
}

// options are those of a client.
func (to Connection) options(log *slog.Logger) client.Options {
	o := client.Options{HostPort: to.HostPort, Namespace: to.Namespace, Logger: sdklog.NewStructuredLogger(log)}
	if onThisMachine(to.HostPort) {
		o.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	o.ConnectionOptions.TLS, o.ConnectionOptions.TLSDisabled = to.TLS, to.TLS == nil
	if to.APIKey != nil {
		o.Credentials = client.NewAPIKeyDynamicCredentials(func(context.Context) (string, error) {
			return to.APIKey(),
				nil
		})
	}
	if to.Payloads != nil {
		o.DataConverter, o.FailureConverter = to.Payloads.converter(), to.Payloads.failures()
	}
	return o
}

// Connect makes a client. It connects when it is first used, so that a server starts, reads and streams while Temporal
// is down.
func Connect(to Connection, log *slog.Logger) (Client, error) {
	made, err := client.NewLazyClient(to.options(log))
	if err != nil {
		return nil, fmt.Errorf("temporal: client: %w", err)
	}
	return made, nil
}

// Dial is Connect to a server on this machine, in plain text.
func Dial(hostPort, namespace string, log *slog.Logger) (Client, error) {
	return Connect(Connection{HostPort: hostPort, Namespace: namespace}, log)
}

// onThisMachine reports whether requests to an address cross no network. The SDK compresses requests by default, which
// then costs processor time and saves nothing.
func onThisMachine(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
