//go:build !linux

package privatenet

import (
	"context"
	"errors"
	"net"
	"os/exec"
)

var errUnsupported = errors.New("private networks exist on Linux only")

// Main does nothing on this system.
func Main() {}

// Network starts programs in networks of their own. This system has none.
type Network struct{}

// Open returns an error on this system.
func Open(context.Context) (*Network, error) { return nil, errUnsupported }

// Start returns an error on this system.
func (*Network) Start(context.Context, *exec.Cmd) (*Process, error) { return nil, errUnsupported }

// Process is a program in a network of its own.
type Process struct {
	Cmd *exec.Cmd
	PID int
}

// Dial returns an error on this system.
func (*Process) Dial(context.Context, int) (net.Conn, error) { return nil, errUnsupported }

// Wait returns an error on this system.
func (*Process) Wait() error { return errUnsupported }

// Kill does nothing on this system, where no Process runs.
func (*Process) Kill() {}
