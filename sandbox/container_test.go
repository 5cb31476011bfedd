package sandbox_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

// fakeTool puts a script named docker or runsc on the PATH.
func fakeTool(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func runContainer(t *testing.T, c sandbox.Config, change func(*sandbox.Program)) (sandbox.Exit, string, error) {
	t.Helper()
	r, err := sandbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := sandbox.Program{
		Path: "/usr/bin/dbt", Argv: []string{"dbt", "run", "--select", "a b"}, Env: []string{"TOKEN=secret"}, Dir: "/usr/lib",
		Read: []string{"/usr/share"}, Write: []string{"/usr/lib"}, Connect: []string{}, Stdout: w, Stderr: w,
		Limits: sandbox.Limits{Memory: 1 << 30, CPU: 1.5, PIDs: 99, Disk: 1 << 20},
	}
	if change != nil {
		change(&p)
	}
	q, err := r.Start(t.Context(), p)
	w.Close()
	if err != nil {
		return sandbox.Exit{}, "", err
	}
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := q.Wait()
	return exit, string(text), err
}

const printArguments = `[ "$1" = version ] || [ "$1" = --version ] && exit 0; for a in "$@"; do echo "$a"; done`

func TestDocker_ArgumentsIsolate(t *testing.T) {
	fakeTool(t, "docker", printArguments+"; cat /proc/self/fd/3")
	exit, out, err := runContainer(t, sandbox.Config{Runtime: sandbox.RuntimeDocker, Image: "dvt-worker-dbt:1"}, nil)
	if err != nil || exit != (sandbox.Exit{}) {
		t.Fatalf("the container ended with %+v, %v", exit, err)
	}
	lines := strings.Split(out, "\n")
	for _, want := range [][]string{
		{"run", "--rm"}, {"--network", "none"}, {"--read-only"}, {"--cap-drop", "ALL"},
		{"--security-opt", "no-new-privileges"},
		{"--memory", "1073741824"}, {"--cpus", "1.5"}, {"--pids-limit", "99"}, {"--ulimit", "fsize=1048576"},
		{"--workdir", "/usr/lib"},
		{"--mount", "type=bind,source=/usr/share,target=/usr/share,readonly"}, {"--mount",
			"type=bind,source=/usr/lib,target=/usr/lib"},
		{"--entrypoint", "/usr/bin/dbt", "dvt-worker-dbt:1", "run", "--select", "a b"},
	} {
		if !containsRun(lines, want) {
			t.Errorf("the arguments lack %q: %q", want, lines)
		}
	}
	arguments, environment, _ := strings.Cut(out, "a b\n")
	if strings.Contains(arguments, "secret") || environment != "TOKEN=secret\n" {
		t.Errorf("the environment came as %q, want it in the file and not in the arguments", environment)
	}
}

func containsRun(lines, want []string) bool {
	for i := range lines {
		if len(lines)-i >= len(want) && slices.Equal(lines[i:i+len(want)], want) {
			return true
		}
	}
	return false
}

func TestGVisor_BundleIsolates(t *testing.T) {
	fakeTool(t, "runsc", printArguments+
		`; for a in "$@"; do [ -f "$a/config.json" ] && cat "$a/config.json"; done; exit 0`)
	exit, out, err := runContainer(t, sandbox.Config{Runtime: sandbox.RuntimeGVisor}, nil)
	if err != nil || exit != (sandbox.Exit{}) {
		t.Fatalf("the container ended with %+v, %v", exit, err)
	}
	for _, want := range []string{
		"--network=none", `"readonly":true`, `"noNewPrivileges":true`, `"args":["/usr/bin/dbt","run","--select","a b"]`,
		`{"destination":"/usr/lib","type":"bind","source":"/usr/lib","options":["rbind","rw","nosuid","nodev"]}`,
		`"effective":[]`, `"limit":1073741824`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the call lacks %q: %s", want, out)
		}
	}
}

// A denied path is hidden below a directory of the program, also one that the program names, and what the program
// names below it is visible.
func TestContainers_HideDeniedPaths(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "project", "secret", "shown"), 0o700); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(root, "project", "key")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	project, secret := filepath.Join(root, "project"), filepath.Join(root, "project", "secret")
	shown := filepath.Join(secret, "shown")
	change := func(p *sandbox.Program) { p.Read, p.Write, p.Dir = []string{shown, project, key}, nil, project }
	for name, c := range map[string]struct {
		config sandbox.Config
		script string
		mount  func(path, kind string) string
	}{
		"docker": {sandbox.Config{Runtime: sandbox.RuntimeDocker, Image: "i"}, "", func(path, kind string) string {
			return map[string]string{
				"read": "type=bind,source=" + path + ",target=" + path + ",readonly", "dir": "type=tmpfs,target=" + path + ",",
				"file": "type=bind,source=/dev/null,target=" + path + ",readonly",
			}[kind]
		}},
		"runsc": {sandbox.Config{Runtime: sandbox.RuntimeGVisor},
			`; for a in "$@"; do [ -f "$a/config.json" ] && cat "$a/config.json"; done; exit 0`,
			func(path, kind string) string {
				return map[string]string{
					"read": `{"destination":"` + path + `","type":"bind","source":"` + path + `","options":["rbind","ro"`,
					"dir":  `{"destination":"` + path + `","type":"tmpfs"`,
					"file": `{"destination":"` + path + `","type":"bind","source":"/dev/null"`,
				}[kind]
			}},
	} {
		t.Run(name, func(t *testing.T) {
			fakeTool(t, name, printArguments+c.script)
			c.config.DeniedPaths = []string{secret, key, filepath.Join(root, "absent")}
			_, out, err := runContainer(t, c.config, change)
			if err != nil {
				t.Fatal(err)
			}
			last := -1
			for _, want := range []string{c.mount(project, "read"), c.mount(secret, "dir"), c.mount(shown, "read")} {
				at := strings.Index(out, want)
				if at <= last {
					t.Errorf("%q is missing or comes too early in %s", want, out)
				}
				last = at
			}
			if !strings.Contains(out, c.mount(key, "file")) || strings.Contains(out, c.mount(key, "read")) {
				t.Errorf("the denied file that the program names is not hidden: %s", out)
			}
		})
	}
}

func TestContainer_ConnectionsAreRefusedBeforeTheStart(t *testing.T) {
	fakeTool(t, "docker", printArguments)
	var unavailable *sandbox.Unavailable
	_, _, err := runContainer(t, sandbox.Config{Runtime: sandbox.RuntimeDocker, Image: "i"},
		func(p *sandbox.Program) { p.Connect = []string{"5432"} })
	if !errors.As(err, &unavailable) || unavailable.Missing[plan.SandboxConnect] == "" {
		t.Errorf("a step that connects got %v, want that the part connect is unavailable", err)
	}
}

func TestContainer_EndsHaveTheirCause(t *testing.T) {
	for status, want := range map[string]sandbox.Exit{
		"3": {Status: 3}, "137": {Status: -1, Cause: sandbox.CauseMemory}, "153": {Status: 153, Cause: sandbox.CauseDisk},
	} {
		fakeTool(t, "docker", `[ "$1" = version ] && exit 0; exit `+status)
		if exit, _, err := runContainer(t, sandbox.Config{Runtime: sandbox.RuntimeDocker, Image: "i"}, nil); err != nil ||
			exit != want {
			t.Errorf("docker's status %s became %+v (%v), want %+v", status, exit, err, want)
		}
	}
	fakeTool(t, "docker", `[ "$1" = version ] && exit 0; exit 125`)
	if _, _, err := runContainer(t, sandbox.Config{Runtime: sandbox.RuntimeDocker, Image: "i"}, nil); err == nil {
		t.Error("Wait reported a container that could not be run as the end of the program, want an error")
	}
}

func TestNew_ContainerRuntimesSayWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for runtime, want := range map[string]string{sandbox.RuntimeDocker: "install Docker",
		sandbox.RuntimeGVisor: "install runsc", "chroot": "is unknown"} {
		_, err := sandbox.New(sandbox.Config{Runtime: runtime, Image: "i"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without its program the runtime %s gave %v, want %q", runtime, err, want)
		}
	}
	fakeTool(t, "docker", "echo no daemon; exit 1")
	if _, err := sandbox.New(sandbox.Config{Runtime: sandbox.RuntimeDocker, Image: "i"}); err == nil ||
		!strings.Contains(err.Error(), "no daemon") {
		t.Errorf("without its daemon docker gave %v, want its own message", err)
	}
}
