//go:build linux

package privatenet_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/internal/privatenet"
)

func TestMain(m *testing.M) {
	privatenet.Main() // does not return in a starter
	if len(os.Args) > 0 && os.Args[0] == programName {
		os.Exit(program())
	}
	// A process of dvt closes its memory to its own user. The kernel then refuses it more.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
