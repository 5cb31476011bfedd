package testserver

import (
	"net"
	"os"
	"os/exec"
	"testing"
)

var moto sharedServer //nolint:gochecknoglobals // one per process

// Moto returns the URL of a server with the APIs of AWS that is not ours. It starts once per test process, because it
// takes a second; each region has secrets of its own. It accepts any credentials.
func Moto(t testing.TB) string {
	t.Helper()
	python, err := program("moto/bin/python")
	if err != nil {
		t.Fatal("testserver: moto is missing: run tools/prepare moto")
	}
	addr := moto.get(t, func(_ *sandbox, addr string) *exec.Cmd {
		host, port, _ := net.SplitHostPort(addr)
		cmd := exec.Command(python, "-m", "moto.server", "-H", host, "-p", port)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	})
	return "http://" + addr
}
