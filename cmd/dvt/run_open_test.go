package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testtime"
)

func TestRunOpen_PrintsTheAddressAndStartsTheBrowser(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("xdg-open is the browser of Linux")
	}
	address, _ := serveStarted(t)
	dir := t.TempDir()
	opened := filepath.Join(dir, "opened")
	script := "#!/bin/sh\nprintf %s \"$1\" > " + opened + ".new && mv " + opened + ".new " + opened + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil { //nolint:gosec // it runs
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("WAYLAND_DISPLAY", "")
	for _, c := range []struct {
		args, display string
		status        int
		says, opens   string
	}{
		{"run open r1 --print", ":0", 0, address + "/runs/r1\n", ""},
		{"run open r1", "", 0, address + "/runs/r1\n", ""},
		{"run open r1 -o json", ":0", 0, `"address": "` + address + `/runs/r1"`, ""},
		{"run open r1 s2", ":0", 0, address + "/runs/r1?step=s2\n", address + "/runs/r1?step=s2"},
		{"run open r1 nope", ":0", 4, "NOT_FOUND", ""},
		{"run open r2", ":0", 4, "NOT_FOUND", ""},
	} {
		t.Setenv("DISPLAY", c.display)
		out, status, err := dvt(t, address, "dev-viewer", strings.Fields(c.args)...)
		if said := out + text(err); status != c.status || !strings.Contains(said, c.says) {
			t.Errorf("dvt %s: status %d, want %d and %q\n%s", c.args, status, c.status, c.says, said)
		}
		got, patience := []byte(nil), time.Now().Add(testtime.Of(5*time.Second))
		for c.opens != "" && len(got) == 0 && time.Now().Before(patience) {
			got, _ = os.ReadFile(opened)
			time.Sleep(10 * time.Millisecond)
		}
		if string(got) != c.opens {
			t.Errorf("dvt %s: the browser opened %q, want %q", c.args, got, c.opens)
		}
		if _, err := os.Stat(opened); c.opens == "" && err == nil {
			t.Errorf("dvt %s: the browser was started, want only the address", c.args)
		}
		_ = os.Remove(opened)
	}
}
