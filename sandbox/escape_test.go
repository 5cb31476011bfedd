//go:build linux

package sandbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

// attempt is one attempt to leave a sandbox.
type attempt struct {
	name string
	// attack runs as the program of a step. nil means that it succeeded.
	attack func(w world) error
	// left reports whether something survived the program. It runs in the test, after the attack.
	left func(w world) error
	// hostMayRefuse says that kernels exist on which the attempt fails without a sandbox, and why.
	hostMayRefuse string
	// needs is a part without which the attempt is not bounded for all processes together.
	needs plan.SandboxPart
	// cause is the bound that ends the program.
	cause sandbox.Cause
	// named is a part of the violation that the step's log shows. Without it, unnamed says why there may be none.
	named, unnamed string
	class          string
}

// world holds the targets of the attacks.
type world struct {
	Secret    string // a file of another workspace
	Denied    string // a file of the project that no program may read
	Project   string
	Workspace string
	Victim    int // a process of the host with a secret in its environment
	Worker    int
	Store     map[string]string // addresses of servers of the host by the form of their address
	Permitted string            // a server that the step may reach
	Closed    string            // an address that the step may reach and on which nobody listens
	Echo      map[string]string // UDP servers
	Abstract  string            // an abstract socket of the host
	Socket    string            // a socket of the host in a directory of another workspace
	Leak      int               // a descriptor of the worker on the secret, without close-on-exec
	Marker    string            // an argument of processes that outlive their program
	Self      string            // the test binary
}

// attempts returns the whole table.
func attempts() []attempt {
	var all []attempt
	for _, c := range []struct {
		class    string
		attempts []attempt
	}{
		{"files", fileAttempts()}, {"processes", processAttempts()}, {"kernel", kernelAttempts()},
		{"namespaces", namespaceAttempts()}, {"network", networkAttempts()}, {"sockets", socketAttempts()},
		{"limits", limitAttempts()},
	} {
		for _, a := range c.attempts {
			a.class = c.class
			all = append(all, a)
		}
	}
	return all
}

func TestEscape_NoAttemptSucceeds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("as a user without privileges the host refuses many attempts by itself; run as root for the whole proof")
	}
	f := newFixture(t)
	w := newWorld(t, f)
	all := attempts()
	if len(all) < 60 {
		t.Errorf("the table has %d attempts, want at least 60", len(all))
	}
	var table bytes.Buffer
	rows := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	succeeded, named := 0, 0
	tried, namedOf := map[string]int{}, map[string]int{}
	for _, a := range all {
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			if reason, missing := f.runtime.Capabilities().Missing[a.needs]; missing {
				t.Fatalf("this machine cannot test the attempt: %s", reason)
			}
			outside := attackOutside(t, w, a)
			if outside != nil && a.hostMayRefuse == "" && os.Geteuid() == 0 {
				t.Errorf("without a sandbox the attempt fails as well (%s), so the test proves nothing", outside)
			}
			r, inside := attackInside(f, w, a)
			if inside == nil {
				succeeded++
				t.Errorf("the attempt succeeded in the sandbox")
			}
			if a.cause != "" && r.exit.Cause != a.cause {
				t.Errorf("the cause is %q, want %q (%+v, %s)", r.exit.Cause, a.cause, r.exit, r.output)
			}
			if (a.named == "") == (a.unnamed == "") {
				t.Errorf("the table says neither or both: what the log names, and why it may not")
			}
			log := fmt.Sprint(r.violations)
			if !strings.Contains(log, a.named) {
				t.Errorf("the log does not name %q: %s", a.named, log)
			}
			if tried[a.class]++; len(r.violations) > 0 {
				named++
				namedOf[a.class]++
			}
			fmt.Fprintf(rows, "%s\t%s\t%s\t%s\n", a.name, describe(outside), describe(inside), firstAction(r.violations))
		})
	}
	rows.Flush()
	t.Logf("attempt, without the sandbox, inside, in the log:\n%s", table.String())
	for _, class := range slices.Sorted(maps.Keys(tried)) {
		t.Logf("%s: %d attempts, %d named in the log", class, tried[class], namedOf[class])
	}
	t.Logf("%d attempts, %d succeeded, %d named in the log", len(all), succeeded, named)
}

func describe(err error) string {
	if err == nil {
		return "succeeds"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Sprintf("%.60s", text)
}

func firstAction(all []sandbox.Violation) string {
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%.70s", all[0].Action)
}

// attackOutside runs an attempt as a plain child of the test, as a worker without a sandbox would.
func attackOutside(t *testing.T, w world, a attempt) error {
	t.Helper()
	w.Workspace = t.TempDir()
	w.Marker = "dvt-outside-" + filepath.Base(w.Workspace)
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), w.Self)
	cmd.Args = []string{attackName, a.name}
	cmd.Env = append(os.Environ(), "WORLD="+string(text))
	cmd.Dir = w.Workspace
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	defer endMarked(w.Marker)
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s (%w)", strings.TrimSpace(string(out)), err)
	}
	if a.left != nil {
		return a.left(w)
	}
	return nil
}

// attackInside runs an attempt as the program of a step.
func attackInside(f *fixture, w world, a attempt) (result, error) {
	text, err := json.Marshal(w)
	if err != nil {
		f.t.Fatal(err)
	}
	p := f.program(w.Self)
	p.Argv = []string{attackName, a.name}
	p.Env = append(p.Env, "WORLD="+string(text))
	p.Read = append(p.Read, w.Self)
	p.Connect = []string{w.Permitted, w.Closed, "169.254.169.254:8080", "[fd00:ec2::254]:80", "[64:ff9b::7f00:1]:" +
		port(w.Store["store"])}
	p.Judge = noLoopbackBut(w.Permitted, w.Closed)
	p.Require = f.runtime.Capabilities().Parts
	r := f.run(p)
	defer endMarked(w.Marker)
	if r.exit.Status != 0 {
		return r, fmt.Errorf("%s (status %d)", strings.TrimSpace(r.output), r.exit.Status)
	}
	if a.left != nil {
		return r, a.left(w)
	}
	return r, nil
}

// newWorld starts the servers and processes of the host.
func newWorld(t *testing.T, f *fixture) world {
	t.Helper()
	other, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := world{
		Secret: filepath.Join(other, "secret.txt"), Denied: f.denied, Project: f.project, Workspace: f.workspace,
		Worker:   os.Getpid(),
		Abstract: fmt.Sprintf("@dvt-sandbox-test-%d", os.Getpid()), Socket: filepath.Join(other, "s"), Self: self,
		Marker: fmt.Sprintf("dvt-inside-%d", os.Getpid()), Store: map[string]string{}, Echo: map[string]string{},
	}
	if err := os.WriteFile(w.Secret, []byte("secret of another workspace"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WORKER_SECRET", "secret of the worker")
	w.Leak, err = unix.Open(w.Secret, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(w.Leak) })
	victim := exec.CommandContext(t.Context(), "/bin/sleep", "600")
	victim.Env = []string{"VICTIM_SECRET=1"}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	w.Victim = victim.Process.Pid
	for name, at := range map[string]string{"store": "127.0.0.1:0", "redis": "127.0.0.1:0", "temporal": "127.0.0.1:0",
		"ipv6": "[::1]:0", "any": "0.0.0.0:0"} {
		w.Store[name] = serve(t, "tcp", at, "store")
	}
	w.Permitted = serve(t, "tcp", "127.0.0.1:0", "permitted")
	if w.Closed, err = closedPort(); err != nil {
		t.Fatal(err)
	}
	serve(t, "unix", w.Abstract, "store")
	serve(t, "unix", w.Socket, "store")
	for name, at := range map[string]string{"ipv4": "127.0.0.1:0", "ipv6": "[::1]:0", "any": "0.0.0.0:0"} {
		w.Echo[name] = echo(t, at)
	}
	return w
}

// serve greets each connection.
func serve(t *testing.T, network, at, greeting string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(greeting + "\n"))
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// echo answers each datagram.
func echo(t *testing.T, at string) string {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(buffer[:n], from)
		}
	}()
	return conn.LocalAddr().String()
}
