package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/store/postgres"
)

// imageUser is the user of the images.
const imageUser = 65532

// containers starts containers of the images of dvt and dvt-worker-dbt under runc, from the bundles that tools/release
// makes: a read-only root, user 65532, no capability, the default profile of seccomp.
type containers struct {
	t                    *testing.T
	dir, product, worker string // directories: of this test, and of the bundles of the images
	running              int
}

// buildImages builds both images of the program under test and unpacks them.
func buildImages(t *testing.T) *containers {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Fatal("runc needs Linux and root")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		t.Fatalf("run tools/prepare runc: %v", err)
	}
	findDBT(t)
	c := &containers{t: t, dir: t.TempDir()}
	tool := filepath.Join(c.dir, "release")
	c.command("go", "build", "-C", filepath.Join(root(t), "tools", "release"), "-o", tool, ".")
	of := []string{"-root", root(t), "-platform", "linux/" + runtime.GOARCH, "-program", testserver.Binary(t)}
	for command, bundle := range map[string]*string{"image": &c.product, "worker-image": &c.worker} {
		layout := filepath.Join(c.dir, command)
		*bundle = filepath.Join(c.dir, "bundle-"+command)
		t.Log(c.command(tool, append(append([]string{command}, of...), layout)...))
		c.command(tool, "bundle", layout, *bundle)
	}
	return c
}

func (c *containers) command(name string, args ...string) string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), name, args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// mount is a file or directory of the machine in a container, at the same path.
type mount struct {
	from, to string
	writable bool
}

// start runs a container until the test ends and returns its id.
func (c *containers) start(bundle string, env []string, mounts []mount, args ...string) (id string) {
	c.t.Helper()
	c.running++
	id = fmt.Sprintf("dvt-test-%d-%d", os.Getpid(), c.running)
	dir := filepath.Join(c.dir, id)
	must(c.t, os.Mkdir(dir, 0o755))
	c.configure(bundle, dir, env, mounts, args)
	state := []string{"--root", filepath.Join(c.dir, "state")}
	var output lockedBuffer
	run := exec.Command("runc", append(state, "run", "--bundle", dir, id)...)
	run.Stdout, run.Stderr = &output, &output
	must(c.t, run.Start())
	exited := make(chan struct{})
	go func() { _ = run.Wait(); close(exited) }()
	c.t.Cleanup(func() {
		// A container that has ended refuses the signal.
		_ = exec.Command("runc", append(state, "kill", id, "KILL")...).Run()
		<-exited
		_ = exec.Command("runc", append(state, "delete", "--force", id)...).Run()
		if c.t.Failed() {
			c.t.Logf("dvt %s printed:\n%s", strings.Join(args, " "), output.String())
		}
	})
	return id
}

// configure writes the configuration of one container, which shares the files of the bundle.
func (c *containers) configure(bundle, dir string, env []string, mounts []mount, args []string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	must(c.t, err)
	var spec map[string]any
	must(c.t, json.Unmarshal(text, &spec))
	process := spec["process"].(map[string]any)
	for _, a := range args {
		process["args"] = append(process["args"].([]any), a)
	}
	for _, e := range env {
		process["env"] = append(process["env"].([]any), e)
	}
	spec["root"].(map[string]any)["path"] = filepath.Join(bundle, "rootfs")
	for _, m := range mounts {
		options := []string{"bind", "nosuid", "nodev", "ro"}
		if m.writable {
			options[3] = "rw"
		}
		spec["mounts"] = append(spec["mounts"].([]any), map[string]any{"destination": m.to, "source": m.from, "type": "bind",
			"options": options})
	}
	text, err = json.Marshal(spec)
	must(c.t, err)
	must(c.t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
}

// checkRestricted looks at the process of a container from outside.
func (c *containers) checkRestricted(id string) {
	c.t.Helper()
	var state struct{ Pid int }
	text := c.command("runc", "--root", filepath.Join(c.dir, "state"), "state", id)
	must(c.t, json.Unmarshal([]byte(text), &state))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", state.Pid))
	must(c.t, err)
	for field, want := range map[string]string{"Uid": fmt.Sprint(imageUser), "Gid": fmt.Sprint(imageUser),
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1",
		"Seccomp": "2"} {
		m := regexp.MustCompile(`(?m)^` + field + `:\s+(\S+)`).FindSubmatch(status)
		if m == nil || string(m[1]) != want {
			c.t.Errorf("%s has %s %s, want %s", id, field, m, want)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", state.Pid))
	must(c.t, err)
	if !regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ / ro,`).Match(mounts) {
		c.t.Errorf("the root of %s is not read-only:\n%s", id, mounts)
	}
}

// The sample runs to its end in containers: the schema is migrated, a server, a control worker and a data worker with
// dbt run beside real PostgreSQL, Redis and Temporal, each as user 65532 on a read-only root without a capability.
func TestImages_RunTheSampleToItsEnd(t *testing.T) {
	if os.Getenv("TEST_LONG") == "" {
		t.Skip("the images take a minute to build: set TEST_LONG")
	}
	c := buildImages(t)
	dsn, dir, redis := testserver.Postgres(t), t.TempDir(), testserver.Redis(t)
	p := &deployment{temporal: testserver.TemporalAlone(t), bus: redis, redis: redis.Addr, dir: dir,
		artifacts: filepath.Join(dir, "artifacts"), shop: filepath.Join(dir, "shop"), receiver: newReceiver(t)}
	for _, d := range []string{p.artifacts, p.shop} {
		must(t, os.Mkdir(d, 0o700))
		must(t, os.Chown(d, imageUser, imageUser))
	}
	p.config = filepath.Join(dir, "dvt.yaml")
	must(t, os.WriteFile(p.config, p.settings(dsn, p.temporal.Namespace, nil), 0o600))
	must(t, os.Chown(p.config, imageUser, imageUser))
	settings := []mount{{from: p.config, to: "/etc/dvt/dvt.yaml"}, {from: p.artifacts, to: p.artifacts, writable: true}}
	keys := []string{"DVT_TICKET_KEYS=" + ticketKey}

	c.start(c.product, nil, nil, "migrate", "--store", dsn)
	waitUntil(t, "a store with its schema", time.Minute, func() (ok bool) {
		var err error
		p.store, err = postgres.Open(t.Context(), dsn, postgres.Options{})
		return err == nil
	})
	t.Cleanup(func() { must(t, p.store.Close()) })
	address := testserver.FreeAddress(t)
	p.urlA, p.urlB = "http://"+address, "http://"+address
	ids := []string{
		c.start(c.product, keys, settings, "server", "--config", "/etc/dvt/dvt.yaml", "--listen", address),
		c.start(c.product, keys, settings, "worker", "--config", "/etc/dvt/dvt.yaml", "--queues", "tq-control-dev"),
	}
	waitUntilReady(t, p.urlA)
	projects := filepath.Join(root(t), "examples")
	ids = append(ids, c.start(c.worker, []string{"DVT_WORKER_TOKEN=" + workerToken},
		[]mount{{from: projects, to: "/projects/examples"}, {from: p.shop, to: p.shop, writable: true}},
		"worker", "--queues", "tq-data-dev", "--temporal", p.temporal.Addr, "--temporal-namespace", p.temporal.Namespace,
		"--server", p.urlA, "--project-root", "/projects", "--allow-private",
		// The default profile of seccomp permits no namespaces. Then Landlock alone closes files, and dbt's locks need the
		// shared memory of the container.
		"--sandbox-allow-missing", "files,network,processes", "--sandbox-write", p.shop+",/dev/shm"))
	ada := client.New(p.urlA, adaToken)
	p.testSample(t, ada, ada)
	for _, id := range ids {
		c.checkRestricted(id)
	}
}
