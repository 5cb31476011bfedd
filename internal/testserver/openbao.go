package testserver

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/dvt-engine/dvt/internal/checkout"
)

// OpenBao starts an OpenBao, and returns a client that may do everything, and a function that ends the server before
// the test does. It skips nothing: a machine without the program fails the test.
func OpenBao(t testing.TB) (client *api.Client, stop func()) {
	t.Helper()
	fatal := func(err error) {
		if err != nil {
			t.Fatalf("testserver: OpenBao: %v", err)
		}
	}
	root, err := checkout.Root()
	fatal(err)
	program := filepath.Join(root, ".tools", "bin", "bao")
	if !executable(program) {
		t.Fatal("testserver: OpenBao is missing: run tools/prepare openbao")
	}
	const token = "root-token-of-the-test"
	address := FreeAddress(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "server", "-dev", "-dev-root-token-id="+token,
		"-dev-listen-address="+address, "-dev-no-store-token")
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	fatal(cmd.Start())
	stop = func() { cancel(); _ = cmd.Wait() }
	t.Cleanup(stop)
	client, err = api.NewClient(&api.Config{Address: "http://" + address})
	fatal(err)
	client.SetToken(token)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		health, err := client.Sys().Health()
		if err == nil && health.Initialized && !health.Sealed {
			return client, stop
		}
		if time.Now().After(deadline) {
			t.Fatalf("testserver: OpenBao does not answer: %v\n%s", err, log.String())
		}
	}
}
