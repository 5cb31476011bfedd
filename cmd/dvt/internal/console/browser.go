package console

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
)

// ErrNoDisplay is the error of OpenBrowser where no browser can be shown, for example over SSH.
var ErrNoDisplay = errors.New("there is no display")

// OpenBrowser opens an address, which must begin with http:// or https://, in the person's browser. It does not wait
// until the browser shows the page.
func OpenBrowser(ctx context.Context, address string) error {
	var command []string
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return ErrNoDisplay
		}
		command = []string{"xdg-open"}
	}
	//nolint:gosec // the program is one of three, and the address is its only argument from outside
	return exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:], address)...).Start()
}
