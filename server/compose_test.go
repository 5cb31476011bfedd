package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// composeService is the part of a service of deploy/compose/compose.yaml that its tests use.
type composeService struct {
	Image       string
	Command     []string
	EnvFile     []string          `yaml:"env_file"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string
	Ports       []string
	User        string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	DependsOn   map[string]struct {
		Condition string
	} `yaml:"depends_on"`
	Healthcheck struct{ Test []string }
	Networks    []string // none: the network default
}

func readCompose(t *testing.T) map[string]composeService {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "deploy", "compose", "compose.yaml"))
	must(t, err)
	var file struct{ Services map[string]composeService }
	must(t, yaml.Unmarshal(text, &file))
	return file.Services
}

// isDVT reports whether a service runs an image of dvt.
func (s composeService) isDVT() bool { return strings.Contains(s.Image, "dvt") }

// reaches reports whether two services share a network.
func (s composeService) reaches(other composeService) bool {
	of := func(s composeService) []string {
		if len(s.Networks) == 0 {
			return []string{"default"}
		}
		return s.Networks
	}
	return slices.ContainsFunc(of(s), func(n string) bool { return slices.Contains(of(other), n) })
}

// startOrder returns services in an order in which each follows those that it depends on, and fails on a circle.
func startOrder(t *testing.T, services map[string]composeService) (order []string) {
	t.Helper()
	for len(order) < len(services) {
		before := len(order)
		for name, s := range services {
			ready := !slices.Contains(order, name)
			for dependency := range s.DependsOn {
				ready = ready && slices.Contains(order, dependency)
			}
			if ready {
				order = append(order, name)
			}
		}
		if len(order) == before {
			t.Fatalf("services wait for each other; only %v can start", order)
		}
	}
	return order
}

func TestCompose_IsSafeAndInOrder(t *testing.T) {
	t.Parallel()
	services := readCompose(t)
	startOrder(t, services)
	for name, s := range services {
		for dependency, d := range s.DependsOn {
			if d.Condition == "service_healthy" && len(services[dependency].Healthcheck.Test) == 0 {
				t.Errorf("%s waits for the health of %s, which has no health check", name, dependency)
			}
		}
		if s.isDVT() && (s.User != "65532:65532" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"})) {
			t.Errorf("%s runs as %q, read-only: %t, without %v: want 65532, true and ALL", name, s.User, s.ReadOnly, s.CapDrop)
		}
		if _, tag, ok := strings.Cut(s.Image, ":"); !s.isDVT() && (!ok || tag == "latest") {
			t.Errorf("%s has the image %s, want a fixed version", name, s.Image)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond this machine", name, p)
			}
		}
		for variable := range s.Environment {
			if strings.Contains(variable, "PASSWORD") && !strings.HasSuffix(variable, "FILE") {
				t.Errorf("%s has %s in the file, want a file of a secret", name, variable)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if !strings.Contains(from, "/") || strings.HasPrefix(from, ".local/") {
				continue // a volume, or a file that init writes
			}
			if _, err := os.Stat(filepath.Join(root(t), "deploy", "compose", from)); err != nil {
				t.Errorf("%s mounts %s: %v", name, from, err)
			}
		}
	}
	for _, name := range []string{"postgres", "redis", "objects"} {
		if services["data-worker"].reaches(services[name]) || !services["server-1"].reaches(services[name]) {
			t.Errorf("%s is on the networks %v: servers must reach it, and the programs of steps must not", name,
				services[name].Networks)
		}
	}
	for _, name := range []string{"temporal", "server-1"} {
		if !services["data-worker"].reaches(services[name]) {
			t.Errorf("the data worker does not reach %s", name)
		}
	}
	text, err := os.ReadFile(filepath.Join(root(t), "deploy", "compose", "prometheus.yaml"))
	must(t, err)
	for _, name := range []string{"server-1", "server-2", "control-worker", "data-worker"} {
		if !services[name].isDVT() || !bytes.Contains(text, []byte(name+":9464")) {
			t.Errorf("Prometheus does not scrape %s", name)
		}
	}
}

// composition starts the services of dvt of the file as processes, beside real servers in place of the other images.
type composition struct {
	services map[string]composeService
	dir      string // with the files of .local, which only their owner reads
	data     string // directory of the data of each process
	replacer *strings.Replacer
	role     string
	metrics  map[string]string // addresses of the listeners of metrics, by service
}

// local returns the content of a file, or an argument, with the addresses and paths of this test.
func (c *composition) local(text string) string { return c.replacer.Replace(text) }

// newComposition writes the secrets and settings by the script of the file, and changes addresses only.
func newComposition(t *testing.T, dsn string) *composition {
	t.Helper()
	c := &composition{services: readCompose(t), dir: filepath.Join(t.TempDir(), "local"), data: t.TempDir(),
		metrics: map[string]string{}}
	script := filepath.Join(root(t), "deploy", "compose", "init")
	out, err := exec.CommandContext(t.Context(), script, c.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("deploy/compose/init: %v\n%s", err, out)
	}
	if info, err := os.Stat(c.dir); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("other users of this machine may enter the directory of the secrets: %v, %v", info.Mode(), err)
	}
	owner, err := url.Parse(dsn)
	must(t, err)
	c.role = "compose_" + strings.TrimPrefix(owner.Path, "/")
	db, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	_, err = db.Exec(t.Context(), fmt.Sprintf("CREATE ROLE %q LOGIN", c.role))
	must(t, err)
	must(t, db.Close(t.Context()))
	servers := *owner
	servers.User = url.User(c.role)
	bucket, redis, engine := testserver.S3(t), testserver.Redis(t), testserver.TemporalAlone(t)
	first, second := testserver.FreeAddress(t), testserver.FreeAddress(t)
	c.replacer = strings.NewReplacer(
		"postgres://owner@postgres:5432/dvt?sslmode=disable", dsn,
		"postgres://dvt@postgres:5432/dvt?sslmode=disable", servers.String(),
		"--app-role=dvt", "--app-role="+c.role,
		"redis:6379", redis.Addr, "temporal:7233", engine.Addr, "s3://dvt?", "s3://"+bucket.Bucket+"?",
		"http://objects:7070", "http://"+bucket.Addr, "http://server-1:8080", "http://"+first,
		"http://server-2:8080", "http://"+second, "listen: 0.0.0.0:9464", "listen: "+testserver.FreeAddress(t),
		"/run/dvt/worker-token", filepath.Join(c.dir, "worker", "worker-token"),
		"/run/dvt/", filepath.Join(c.dir, "secrets")+"/", "/projects", filepath.Join(root(t)),
		"/etc/dvt/", c.dir+"/",
		// Outside of a container the whole sandbox works, and it has a shared memory of its own for each step.
		"sandbox-write: [/dev/shm]", "sandbox-write: []")
	for _, file := range []string{filepath.Join(c.dir, "dvt.yaml"),
		filepath.Join(root(t), "deploy", "compose", "worker.yaml")} {
		text, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(c.dir, filepath.Base(file)), []byte(c.local(string(text))), 0o600))
	}
	return c
}

// arguments returns the command of a service. Each server gets an address of its own, as containers have.
func (c *composition) arguments(t *testing.T, name string) (args []string) {
	t.Helper()
	for _, a := range c.services[name].Command {
		args = append(args, c.local(a))
	}
	address := strings.TrimPrefix(c.local("http://"+name+":8080"), "http://")
	if strings.HasPrefix(name, "server-") {
		args = append(args, "--listen", address)
	}
	if name != "migrate" && name != "smoke" {
		c.metrics[name] = testserver.FreeAddress(t)
		args = append(args, "--metrics-listen", c.metrics[name])
	}
	return args
}

// environment returns the variables of a service, and a directory of its own for its data. The bucket has the
// credentials of its test server, and no receiver of traces is there.
func (c *composition) environment(t *testing.T, name string) (env []string) {
	t.Helper()
	env = append(env, "DVT_DATA="+filepath.Join(c.data, name))
	for _, file := range c.services[name].EnvFile {
		f, err := os.Open(filepath.Join(c.dir, strings.TrimPrefix(file, ".local/")))
		must(t, err)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if v := lines.Text(); !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "OTEL_") {
				env = append(env, v)
			}
		}
		must(t, f.Close())
	}
	return env
}

// The services of compose.yaml start in its order as processes, with its commands, settings and secrets, and its last
// service, dvt smoke, proves the installation.
func TestCompose_StartsAndIsProven(t *testing.T) {
	dsn := testserver.Postgres(t)
	c := newComposition(t, dsn)
	running := map[string]*process{}
	for _, name := range startOrder(t, c.services) {
		s := c.services[name]
		if !s.isDVT() || name == "smoke" {
			continue
		}
		p := spawn(t, name, c.environment(t, name), c.arguments(t, name)...)
		running[name] = p
		switch {
		case name == "migrate":
			<-p.exited
			if !p.cmd.ProcessState.Success() {
				t.Fatalf("dvt migrate: %s", p.output())
			}
		case len(s.Healthcheck.Test) > 0:
			waitUntil(t, "the health check of "+name, time.Minute, func() bool { return c.isHealthy(t, name) || hasExited(p) })
			if hasExited(p) {
				t.Fatalf("%s has ended", name)
			}
		}
	}
	args := append(c.arguments(t, "smoke"), "--timeout", "2m")
	smoke := exec.CommandContext(t.Context(), testserver.Binary(t), args...)
	smoke.Env = append(environmentWithoutDVT(), c.environment(t, "smoke")...)
	out, err := smoke.CombinedOutput()
	if err != nil {
		if m := regexp.MustCompile(`the run (\S+) was`).FindSubmatch(out); m != nil {
			show := exec.Command(testserver.Binary(t), "run", "show", string(m[1]), "--server", c.local("http://server-1:8080"))
			show.Env = smoke.Env
			more, _ := show.CombinedOutput()
			out = append(out, more...)
		}
		t.Fatalf("dvt smoke: %v\n%s", err, out)
	}
	for name, p := range running {
		if name != "migrate" && hasExited(p) {
			t.Errorf("%s has ended: %s", name, p.output())
		}
	}
}

// isHealthy runs the health check of a service.
func (c *composition) isHealthy(t *testing.T, name string) bool {
	t.Helper()
	test := c.services[name].Healthcheck.Test
	if len(test) < 3 || test[0] != "CMD" || test[1] != "/usr/bin/dvt" {
		t.Fatalf("the health check of %s is %v, want a command of dvt", name, test)
	}
	args := strings.Split(strings.ReplaceAll(strings.Join(test[2:], "\n"), "127.0.0.1:9464", c.metrics[name]), "\n")
	check := exec.CommandContext(t.Context(), testserver.Binary(t), args...)
	check.Env = append(environmentWithoutDVT(), c.environment(t, name)...)
	for _, v := range check.Env {
		if strings.HasPrefix(v, "DVT_TOKEN=") {
			t.Errorf("%s has the token of a person, want a health check that needs none", name)
		}
	}
	return check.Run() == nil
}
