package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/dvt-engine/dvt/internal/testtime"
)

// runAsDVT is the environment variable that makes this test binary run as dvt.
const runAsDVT = "DVT_TEST_AS_DVT"

// waitFactor multiplies completionWait in tests, because a busy machine may take more than a second.
const waitFactor = 5

func TestMain(m *testing.M) {
	completionWait *= waitFactor
	if os.Getenv(runAsDVT) != "" {
		os.Exit(execute())
	}
	os.Exit(m.Run())
}

// typist types into a shell and reads its output.
type typist struct {
	t    *testing.T
	tty  *os.File
	mu   sync.Mutex
	seen strings.Builder
}

// startShell starts a shell in which the command dvt is this program and the server is at address.
func startShell(t *testing.T, address, shell string, args ...string) *typist {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dvt"), fmt.Appendf(nil, "#!/bin/sh\n%s=1 exec %q \"$@\"\n", runAsDVT, self),
		0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), shell, args...)
	c.Dir = dir
	c.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "ZDOTDIR=" + dir, "XDG_CONFIG_HOME=" + dir,
		"TERM=dumb", "PS1=$ ", "LC_ALL=C.UTF-8",
		"FPATH=" + os.Getenv("FPATH"), "LD_LIBRARY_PATH=" + os.Getenv("LD_LIBRARY_PATH"), "DVT_SERVER=" + address,
		"DVT_TOKEN=dev-viewer"}
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	p := &typist{t: t, tty: tty}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			p.mu.Lock()
			p.seen.Write(buf[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = tty.Close()
		<-read
	})
	return p
}

var ansi = regexp.MustCompile(`\x1b(\[[0-9;?>]*[a-zA-Z]|\][^\x07]*\x07|[=>()]B?)`)

// types types text and waits until the output after it matches the pattern.
func (p *typist) types(text, pattern string) {
	p.t.Helper()
	p.mu.Lock()
	p.seen.Reset()
	p.mu.Unlock()
	if _, err := p.tty.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
	var seen string
	for began := time.Now(); time.Since(began) < testtime.Of(20*time.Second); time.Sleep(20 * time.Millisecond) {
		p.mu.Lock()
		seen = strings.ReplaceAll(ansi.ReplaceAllString(p.seen.String(), ""), "\r", "")
		p.mu.Unlock()
		if regexp.MustCompile(pattern).MatchString(seen) {
			return
		}
	}
	p.t.Errorf("the output after typing %q does not match %s:\n%q", text, pattern, seen)
}

// Real shells source the scripts, without a completion package, and the test presses the tabulator. bash must be
// installed; zsh and fish are tested if they are.
func TestCompletion_InRealShells(t *testing.T) {
	t.Parallel()
	address, _ := serveThreeRuns(t)
	const empty = "\x15" // Ctrl-U
	for _, shell := range []struct {
		name, on string
		args     []string
	}{
		{"bash", "source <(dvt completion bash); echo re''ady\n", []string{"--norc", "--noprofile", "-i"}},
		{"zsh", "autoload -U compinit; compinit -u; source <(dvt completion zsh); echo re''ady\n", []string{"-f", "-i"}},
		{"fish", "dvt completion fish | source; echo re''ady\n", []string{"--no-config", "-i"}},
	} {
		t.Run(shell.name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell.name)
			if err != nil {
				if shell.name == "bash" {
					t.Fatal("install bash: its completion is tested by it")
				}
				t.Skipf("%s is not installed: TestCompletion_ScriptsCallTheirProgram checks only the text of its script",
					shell.name)
			}
			p := startShell(t, address, path, shell.args...)
			p.types(shell.on, `\nready`)
			p.types("dvt run sho\t", `run show `)
			p.types(" @la\t", `@last `)
			p.types(empty+"dvt run logs @failed \t\t", `load`)
			p.types(empty+"dvt run show caf\t", runC)
			p.types(empty+"dvt run list --status COMP\t", `COMPLETED`)
			p.types(empty+"dvt run list --output=js\t", `--output=json`)
			p.types(empty+"dvt plan validate dv\t", `validate dvt`)
		})
	}
}

func TestCompletion_ScriptsCallTheirProgram(t *testing.T) {
	t.Parallel()
	for _, shell := range shells {
		for _, args := range [][]string{{"completion", shell.name}, {"completion", shell.name, "--no-descriptions"}} {
			script, status, err := local(t, "", args...)
			if status != 0 || !strings.Contains(script, "__complete") || strings.Contains(script,
				"__completeNoDesc") != (len(args) > 2) {
				t.Errorf("%v: status %d, %v, want a script that calls __complete\n%.200s", args, status, err, script)
			}
		}
	}
}
