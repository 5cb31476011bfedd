package attacks_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// anotherUser is a user of the machine who has nothing to do with `dvt dev`.
var anotherUser = &syscall.Credential{Uid: 65534, Gid: 65534}

// Programs of other users of a shared machine can connect to each port and each unix socket, so only the API may
// listen.
func TestDev_OnlyItsAPIListens(t *testing.T) {
	h := startDev(t)
	h.expectOnlyAPIListens(t)
	h.expectRunCompletes(t, "true")
}

func (h *devHome) expectOnlyAPIListens(t *testing.T) {
	t.Helper()
	want := []string{"tcp " + h.address}
	if got := listeners(t, h.pid); !slices.Equal(got, want) {
		t.Errorf("dvt dev and its processes listen on\n%s\nwant only the API,\n%s", strings.Join(got, "\n"), want[0])
	}
}

// The other user tries the port of Temporal in its own network, and all ports on which a process of `dvt dev` listens.
func TestDev_AnotherUserOfTheMachineCannotEndRuns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this test attacks as another user: run it as root")
	}
	h := startDev(t)
	h.waitUntilRunning(t)
	ports := append(listeningPorts(t, h.pid), h.readTemporalServer(t).Port)
	for _, port := range ports {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		for name, args := range map[string][]string{
			"lists runs":  {"workflow", "list"},
			"reads a run": {"workflow", "show", "--workflow-id", "dvt/acme/" + h.runID},
			"ends runs":   {"workflow", "terminate", "--query", "ExecutionStatus='Running'", "--reason", "evil", "--yes"},
		} {
			out, err := temporalAs(t, anotherUser, append(args, "--address", address, "--namespace", "dvt",
				"--command-timeout", "10s")...)
			if err == nil || strings.Contains(out, h.runID) {
				t.Errorf("another user %s at %s (%v):\n%s", name, address, err, out)
			}
		}
	}
	for _, kind := range []string{"net", "user"} {
		cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("exec 3< /proc/%d/ns/%s", h.readTemporalServer(t).PID, kind))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: anotherUser}
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("another user opens the %s namespace of Temporal: %s", kind, out)
		}
	}
	time.Sleep(2 * time.Second) // Temporal carries an order out in the background
	if status := h.readStatus(t, h.runID); status != "RUNNING" {
		t.Errorf("after the attack the run is %s, want RUNNING", status)
	}
}

// A developer sets temporal-port to use the CLI of Temporal.
func TestDev_TemporalPortOpensTheAPIOnRequest(t *testing.T) {
	address, err := freeAddress()
	must(t, err)
	_, port, _ := strings.Cut(address, ":")
	h := startDev(t, "--temporal-port", port)
	if !strings.Contains(h.output(), "the setting temporal-port opens Temporal's API without a password") {
		t.Error("dvt dev does not warn of the open port")
	}
	want := []string{"tcp " + address, "tcp " + h.address}
	slices.Sort(want)
	if got := listeners(t, h.pid); !slices.Equal(got, want) {
		t.Errorf("dvt dev and its processes listen on %q, want %q", got, want)
	}
	// Temporal lists a workflow some time after its start.
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		out, err := temporalAs(t, nil, "workflow", "list", "--address", address, "--namespace", "dvt")
		if err == nil && strings.Contains(out, h.runID) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the list of Temporal's CLI lacks run %s (%v):\n%s", h.runID, err, out)
		}
	}
}

// contract: T226
func TestDev_KilledTemporalComesBackInItsOwnNetwork(t *testing.T) {
	h := startDev(t)
	h.waitUntilRunning(t)
	before := h.readTemporalServer(t)
	must(t, syscall.Kill(before.PID, syscall.SIGKILL))
	waitUntil(t, "Temporal was started again", time.Minute, func() bool {
		return h.readTemporalServer(t).PID != before.PID && isRunning(h.readTemporalServer(t).PID)
	})
	h.expectRunCompletes(t, "true")
	ours, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	if theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", h.readTemporalServer(t).PID)); err != nil ||
		theirs == ours {
		t.Errorf("the network of the new Temporal is %s (%v), that of the machine is %s", theirs, err, ours)
	}
	h.expectOnlyAPIListens(t)
	if status := h.readStatus(t, h.runID); status != "RUNNING" {
		t.Errorf("after the restart of Temporal the sleeping run is %s, want RUNNING", status)
	}
}

// contract: T226
func TestDev_TemporalEndsWithAKilledDev(t *testing.T) {
	h := startDev(t)
	var left []int
	for _, pid := range descendants(t, h.pid) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), "start-dev") {
			left = append(left, pid)
		}
	}
	if !slices.Contains(left, h.readTemporalServer(t).PID) {
		t.Fatalf("Temporal is process %d, which is not among %v", h.readTemporalServer(t).PID, left)
	}
	h.kill()
	waitUntil(t, "Temporal and its starter ended with dvt dev", 10*time.Second, func() bool {
		return !slices.ContainsFunc(left, isRunning)
	})
}

// spawnWithoutNamespaces returns a function that starts a process on a machine that permits no further network
// namespaces. The limit belongs to a user namespace, so the process has its own.
func spawnWithoutNamespaces(t *testing.T) func(w *world, args ...string) (*process, error) {
	t.Helper()
	return func(w *world, args ...string) (*process, error) {
		script := `echo 0 > /proc/sys/user/max_net_namespaces && exec "$0" "$@"`
		as := &world{binary: "/bin/sh", dir: w.dir}
		return as.spawnWith(&syscall.SysProcAttr{
			Setpgid: true, Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}, "dvt dev", nil, append([]string{"-c", script, w.binary}, args...)...)
	}
}

// temporalAs runs the Temporal CLI as a user; nil is the user of the test. The user cannot reach the directories of the
// test, so the program is the only file in its root.
func temporalAs(t *testing.T, user *syscall.Credential, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testserver.TemporalCLI(t), args...)
	cmd.Env = []string{"HOME=/"}
	if user != nil {
		root := filepath.Join(t.TempDir(), "root")
		must(t, os.Mkdir(root, 0o755))
		must(t, copyProgram(cmd.Path, filepath.Join(root, "temporal")))
		cmd.Path, cmd.Dir = "/temporal", "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: user}
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("the Temporal CLI cannot be started: %v", err)
	}
	return string(out), err
}

// copyProgram copies a program, or links it where both are on one file system.
func copyProgram(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, in)
	return err
}

// readTemporalServer reads the process id of the Temporal server of `dvt dev` and its port in its own network.
func (h *devHome) readTemporalServer(t *testing.T) (id struct{ PID, Port int }) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(h.data, "temporal", "server.pid"))
	must(t, err)
	must(t, json.Unmarshal(b, &id))
	return id
}

func (h *devHome) readStatus(t *testing.T, runID string) string {
	t.Helper()
	_, text := h.ask(t, http.MethodPost, "/graphql", fmt.Sprintf(`{"query":"{run(runId:\"%s\"){status}}"}`, runID),
		h.bearer("dev-admin"), jsonBody)
	var out struct {
		Data struct{ Run struct{ Status string } }
	}
	must(t, json.Unmarshal([]byte(text), &out))
	return out.Data.Run.Status
}

// waitUntilRunning waits until the run that sleeps is RUNNING.
func (h *devHome) waitUntilRunning(t *testing.T) {
	t.Helper()
	waitUntil(t, "the run is RUNNING", time.Minute, func() bool { return h.readStatus(t, h.runID) == "RUNNING" })
}

// expectRunCompletes starts a run of one program and waits until it has completed.
func (h *devHome) expectRunCompletes(t *testing.T, argv ...string) {
	t.Helper()
	w := &world{url: h.url}
	id := fmt.Sprintf("network-%d", time.Now().UnixNano())
	runID, err := w.submit(t.Context(), h.tokens["dev-engineer"], id, "shop",
		map[string]any{"inline": planOf("acme", "shop", id, command("only", queueData, argv...))})
	must(t, err)
	waitUntil(t, "run "+runID+" completed", time.Minute, func() bool { return h.readStatus(t, runID) == "COMPLETED" })
}

// isRunning reports whether a process runs. A zombie does not run.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z")
}

// descendants returns a process and all that descend from it.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, file := range children {
			list, _ := os.ReadFile(file)
			for _, child := range strings.Fields(string(list)) {
				n, err := strconv.Atoi(child)
				must(t, err)
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// listeningPorts returns the TCP ports of the machine on which a process and its descendants listen.
func listeningPorts(t *testing.T, pid int) (ports []int) {
	t.Helper()
	for _, l := range listeners(t, pid) {
		if address, ok := strings.CutPrefix(l, "tcp "); ok {
			port, err := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
			must(t, err)
			ports = append(ports, port)
		}
	}
	return ports
}

// listeners returns the sockets of a process and its descendants to which other processes of the machine can connect,
// such as "tcp 127.0.0.1:80" and "unix /run/socket", in order. Sockets of other network namespaces are not among them.
func listeners(t *testing.T, pid int) (found []string) {
	t.Helper()
	own := map[string]bool{}
	for _, p := range descendants(t, pid) {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p))
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
				own[strings.Trim(to, "socket:[]")] = true
			}
		}
	}
	if len(own) == 0 {
		t.Fatalf("the sockets of process %d cannot be read: run this test as root", pid)
	}
	// The columns of an address and of the state, the state of a socket that accepts, and the column of the inode.
	for table, c := range map[string]struct {
		address, state, inode int
		accepts               string
	}{
		"tcp": {1, 3, 9, "0A"}, "tcp6": {1, 3, 9, "0A"}, "udp": {1, 3, 9, "07"}, "udp6": {1, 3, 9, "07"},
		"unix": {7, 3, 6, "00010000"},
	} {
		text, err := os.ReadFile("/proc/self/net/" + table)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) <= max(c.inode, c.state) || f[c.state] != c.accepts || !own[f[c.inode]] {
				continue
			}
			address := "without a name"
			if table == "unix" && len(f) > c.address {
				address = f[c.address]
			} else if table != "unix" {
				address = hostPort(t, f[c.address])
			}
			found = append(found, strings.TrimSuffix(table, "6")+" "+address)
		}
	}
	slices.Sort(found)
	return found
}

// hostPort reads an address of /proc/net: 32-bit words in the order of a little-endian machine, and the port.
func hostPort(t *testing.T, text string) string {
	t.Helper()
	words, port, _ := strings.Cut(text, ":")
	ip := make(net.IP, 0, 16)
	for ; words != ""; words = words[8:] {
		for i := 6; i >= 0; i -= 2 {
			b, err := strconv.ParseUint(words[i:i+2], 16, 8)
			must(t, err)
			ip = append(ip, byte(b))
		}
	}
	n, err := strconv.ParseUint(port, 16, 16)
	must(t, err)
	return net.JoinHostPort(ip.String(), strconv.FormatUint(n, 10))
}
