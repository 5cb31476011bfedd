package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// aSecret has the form of dvt's tokens without the last letter, which distinguishes the tokens of a test.
const aSecret = "dvt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// keyRing writes the files that a `dvt dev` leaves in its data directory. With running it also holds the lock of the
// process.
func keyRing(t *testing.T, address string, running bool) (data string) {
	t.Helper()
	data = t.TempDir()
	doc, err := json.Marshal(map[string]any{
		"address": address, "secret": aSecret + "s", "tokens": map[string]string{"dev-engineer": aSecret + "e",
			"dev-viewer": aSecret + "v"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "tokens"), doc, 0o600); err != nil {
		t.Fatal(err)
	}
	if running {
		f, err := os.OpenFile(filepath.Join(data, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
	}
	t.Setenv("DVT_DATA", data)
	return data
}

// A token of `dvt dev` goes only to the process that wrote its address beside it, and only while that process runs.
func TestDevToken_GoesToItsOwnAddressOnly(t *testing.T) {
	isolateEnvironment(t)
	own, gotOwn := serveBearer(t)
	other, gotOther := serveBearer(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(own, "http://"), ":")
	ask := func(name string, got *string, want, server string) {
		t.Helper()
		*gotOwn, *gotOther = "", ""
		out := runAndExpect(t, 3, "FORBIDDEN", "whoami", "--server", server)
		if *got != want || strings.Contains(out, aSecret) {
			t.Errorf("%s got the token %q, want %q\n%s", name, *got, want, out)
		}
	}
	keyRing(t, strings.TrimPrefix(own, "http://"), false)
	ask("a process that has ended", gotOwn, "", own)
	keyRing(t, strings.TrimPrefix(own, "http://"), true)
	ask("its own address", gotOwn, aSecret+"e", own)
	ask("its own address with a slash", gotOwn, aSecret+"e", own+"/")
	ask("the name localhost", gotOwn, aSecret+"e", "http://localhost:"+port)
	ask("another port", gotOther, "", other)
}

// Without --server commands ask the process that runs on the data directory, whatever its port.
func TestCommands_FindTheDevThatRuns(t *testing.T) {
	isolateEnvironment(t)
	own, got := serveBearer(t)
	keyRing(t, strings.TrimPrefix(own, "http://"), true)
	if runAndExpect(t, 3, "FORBIDDEN", "whoami"); *got != aSecret+"e" {
		t.Errorf("the process got the token %q, want that of dev-engineer", *got)
	}
}

// A user who can write or replace the file could choose the destination of each token.
func TestDevToken_IsReadFromAPrivateFileOnly(t *testing.T) {
	for want, spoil := range map[string]func(path string) error{
		"is open to other users (mode 0640)": func(path string) error { return os.Chmod(path, 0o640) },
		"too many levels of symbolic links": func(path string) error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
		},
		"is not a regular file": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(want, func(t *testing.T) {
			isolateEnvironment(t)
			own, got := serveBearer(t)
			data := keyRing(t, strings.TrimPrefix(own, "http://"), true)
			if err := spoil(filepath.Join(data, "tokens")); err != nil {
				t.Fatal(err)
			}
			if runAndExpect(t, 2, want, "whoami", "--server", own); *got != "" {
				t.Errorf("the server got the token %q, want none", *got)
			}
			runAndExpect(t, 2, want, "dev", "token", "dev-viewer")
		})
	}
}

// localhost may lead to another program on another loopback address, so the command uses the address in the file.
func TestDevToken_LocalhostIsTheAddressInTheFile(t *testing.T) {
	isolateEnvironment(t)
	keyRing(t, "127.0.0.1:1", true)
	runAndExpect(t, 1, "http://127.0.0.1:1:", "whoami", "--server", "http://localhost:1")
}

func TestDevToken_IsPrintedByName(t *testing.T) {
	dir := isolateEnvironment(t)
	runAndExpect(t, 4, "no `dvt dev` has run on this data directory", "dev", "token", "dev-viewer", "--data",
		filepath.Join(dir, "none"))
	data := keyRing(t, "127.0.0.1:1", false)
	if out := runAndExpect(t, 0, aSecret+"v\n", "dev", "token", "dev-viewer"); out != aSecret+"v\n" {
		t.Errorf("more than the token is printed: %q", out)
	}
	runAndExpect(t, 4, `there is no dev principal "dev-nobody": the names are dev-engineer, dev-viewer`, "dev", "token",
		"dev-nobody", "--data", data)
	runAndExpect(t, 2, "usage: dvt dev token NAME", "dev", "token")
	runAndExpect(t, 0, "dev-viewer", "__complete", "dev", "token", "")
	runAndExpect(t, 1, "no `dvt dev` runs on", "dev", "link")
	runAndExpect(t, 1, "no `dvt dev` runs on", "dev", "sample", "shop")
	if err := os.WriteFile(filepath.Join(data, "tokens"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	runAndExpect(t, 2, "holds no tokens: stop `dvt dev`, delete the file", "dev", "token", "dev-viewer")
}

func TestDevLink_AsksTheProcessThatRuns(t *testing.T) {
	isolateEnvironment(t)
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"url":"http://127.0.0.1:1/?key=k"}`))
	}))
	t.Cleanup(s.Close)
	keyRing(t, strings.TrimPrefix(s.URL, "http://"), true)
	runAndExpect(t, 0, "http://127.0.0.1:1/?key=k\n", "dev", "link")
	runAndExpect(t, 0, "http://127.0.0.1:1/?key=k\n", "dev", "link", "dev-viewer")
	runAndExpect(t, 4, "the names are", "dev", "link", "dev-nobody")
	if got, want := strings.Join(asked, ", "), "POST /dev/link Bearer "+aSecret+"e, POST /dev/link Bearer "+aSecret+
		"v"; got != want {
		t.Errorf("dvt dev was asked %q, want %q", got, want)
	}
}
