package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/dvt-engine/dvt/bench/rig"
)

// browser returns the Setup of a figure of the UI, measured in Chromium with `dvt dev` of bin/dvt. The Playwright test
// of that name in web/e2e/*.bench.ts measures it and describes its floor.
func browser(name string) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(_ context.Context, r *rig.Rig) (*rig.Trial, error) {
		if _, err := os.Stat(filepath.Join("bin", "dvt")); err != nil {
			return nil, fmt.Errorf("the figures of the UI need bin/dvt; run `make build`: %w", err)
		}
		return &rig.Trial{Repeat: func(ctx context.Context) (rig.Sample, error) {
			return inBrowser(ctx, name, filepath.Join(r.Dir, name))
		}}, nil
	}
}

// inBrowser runs the test, which writes its two times to file.
func inBrowser(ctx context.Context, name, file string) (s rig.Sample, err error) {
	test := exec.CommandContext(ctx, "npx", "--no-install", "playwright", "test", "--config", "playwright.bench.config.ts",
		"-g", name+"$")
	test.Dir = "web"
	test.Env = append(os.Environ(), "DVT_E2E_FIGURE="+file)
	output, err := test.CombinedOutput()
	if err != nil {
		return s, fmt.Errorf("the browser test %s: %w: %s", name, err, output)
	}
	found, err := os.ReadFile(file)
	if err != nil {
		return s, fmt.Errorf("the browser test %s reported nothing: %w", name, err)
	}
	if _, err := fmt.Sscan(string(found), &s.Cost, &s.Floor); err != nil {
		return s, fmt.Errorf("the browser test %s reported %q: %w", name, found, err)
	}
	return s, os.Remove(file)
}
