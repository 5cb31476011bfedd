package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/config/configtest"
)

// Servers and control workers do not start without ticket-keys. The error says how to create them.
func TestRun_NeedsTicketKeys(t *testing.T) {
	c := configtest.MustLoad(t, false, "store: sqlite:unused\nredis: redis://127.0.0.1:1/0\ntemporal: 127.0.0.1:1\nqueues: "+
		"[tq-control-dev]\n")
	for name, run := range map[string]func(context.Context, config.Config, *slog.Logger) error{"server": server.Run,
		"control worker": server.RunWorker} {
		err := run(t.Context(), c, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "ticket-keys is missing") || !strings.Contains(err.Error(),
			"openssl rand -base64 32") {
			t.Errorf("%s without ticket-keys: the error is %v, want one with the command that creates them", name, err)
		}
	}
	// these duties seal the executions that they start, and recognise executions of dvt by the seal
	for _, duty := range []string{"dispatch", "reconcile"} {
		c.Duties = []string{duty}
		if err := server.Run(t.Context(), c, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), "ticket-keys is missing") {
			t.Errorf("a server with the duty %s without ticket-keys: the error is %v, want one that names them", duty, err)
		}
	}
}

// A server with some duties serves only the paths of these duties. It starts and answers although the engine and the
// bus are unreachable.
func TestServer_CarriesOutOnlyItsDuties(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dvt.db")
	if out := expectFailure(t, "server", "--duties", "dance"); !strings.Contains(out, "dance") {
		t.Errorf("with an unknown duty the server prints %q, want the name of the duty", out)
	}
	for duties, api := range map[string]bool{"project,dispatch,deliver": false, "api": true} {
		address := testserver.FreeAddress(t)
		p := spawn(t, "dvt server "+duties, nil, "server", "--listen", address, "--store", "sqlite:"+file, "--redis",
			"redis://127.0.0.1:1/0",
			"--temporal", "127.0.0.1:1", "--artifacts", "mem://", "--duties", duties)
		waitUntilReady(t, "http://"+address)
		if status := get(t, "http://"+address+"/livez").StatusCode; status != 200 {
			t.Errorf("duties %s: /livez answers %d, want 200", duties, status)
		}
		want := 404
		if api {
			want = 401
		}
		if status := get(t, "http://"+address+"/graphql?query={viewer{principal}}").StatusCode; status != want {
			t.Errorf("duties %s: /graphql answers %d, want %d", duties, status, want)
		}
		if took := p.terminate(); took > testtime.Of(15*time.Second) {
			t.Errorf("duties %s: the shutdown took %s, want 15 s or less", duties, took)
		}
	}
}

func TestRunWorker_ServesOnePlaneAndExactNames(t *testing.T) {
	for queues, want := range map[string]string{
		"tq-control-dev,tq-data-dev": "not both", "tq-control-prod,tq-isolation-acme-prod": "not both",
		"tq-data-{env}": "not a template", "": "--queues is missing",
	} {
		cfg := configtest.MustLoad(t, false, "temporal: 127.0.0.1:1\nstore: sqlite:x\nredis: redis://127.0.0.1:1/0\n")
		if queues != "" {
			cfg.Queues = strings.Split(queues, ",")
		}
		if err := server.RunWorker(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("--queues %s: got %v, want %q", queues, err, want)
		}
	}
}

// Programs of steps must not find the worker's secrets in its environment.
func TestWorker_TakesItsTokenOutOfItsEnvironment(t *testing.T) {
	t.Parallel()
	p := spawn(t, "data worker", []string{"DVT_WORKER_TOKEN=" + workerToken, "DVT_LOG_LEVEL=info"}, "worker",
		"--queues", "tq-data-dev",
		"--temporal", "127.0.0.1:1", "--server", "http://127.0.0.1:1", "--workspace", t.TempDir())
	file := fmt.Sprintf("/proc/%d/environ", p.cmd.Process.Pid)
	waitUntil(t, "the environment of the worker has no token", 10*time.Second, func() bool {
		b, err := os.ReadFile(file)
		must(t, err)
		return strings.Contains(string(b), "DVT_WORKER_TOKEN=xxxx") &&
			strings.Contains(string(b), "DVT_LOG_LEVEL=info") &&
			!strings.Contains(string(b), workerToken)
	})
}

// A server that serves plain text to other machines warns once, unless allow-plaintext names it.
func TestServer_WarnsOfPlainTextForOtherMachines(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[string]bool{"": true, "journal": false} {
		_, port, err := net.SplitHostPort(testserver.FreeAddress(t))
		must(t, err)
		config, mode := filepath.Join(t.TempDir(), "dvt.yaml"), os.FileMode(0o600)
		if want {
			mode = 0o644
		}
		must(t, os.WriteFile(config, fmt.Appendf(nil,
			"accounts: [{id: ada, tenant: acme, tokenSha256: %s}]\nallow-plaintext: [%s]\n",
			tokenHash(adaToken), allowed), mode))
		p := spawn(t, "server", nil, "server", "--config", config, "--listen", "0.0.0.0:"+port, "--store",
			"sqlite:"+filepath.Join(t.TempDir(), "dvt.db"),
			"--redis", "redis://127.0.0.1:1/0", "--temporal", "127.0.0.1:1", "--artifacts", "mem://")
		waitUntilReady(t, "http://127.0.0.1:"+port)
		if name := "can read this file, which may hold secrets"; strings.Contains(p.output(), name) != (mode == 0o644) {
			t.Errorf("settings file of mode %o: the log is\n%s", mode, p.output())
		}
		if got := strings.Contains(p.output(), "served in plain text to other machines"); got != want {
			t.Errorf("allow-plaintext: [%s]: it warns %t, want %t:\n%s", allowed, got, want, p.output())
		}
	}
}
