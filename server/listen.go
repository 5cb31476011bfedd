package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// listen opens the address, with a sentence for a person when it is taken.
func listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the address %s is taken: stop what listens there, or choose another with --listen", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("this user may not listen on %s: choose a port above 1023 with --listen", address)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return ln, nil
}
