package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/sandbox"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/config/configtest"
)

// stepLimits returns the limits of a step that sets none, and the maxima for a step.
func stepLimits(t *testing.T, c config.Config) (normal, most sandbox.Limits) {
	t.Helper()
	normal, most, err := c.StepLimits()
	if err != nil {
		t.Fatal(err)
	}
	return normal, most
}

func TestLoad_ReadsLimitsOfSteps(t *testing.T) {
	c := configtest.MustLoad(t, false, "")
	normal, most := stepLimits(t, c)
	if diff := cmp.Diff(sandbox.Limits{Memory: 2 << 30, CPU: 2, PIDs: 256, Disk: 10 << 30}, normal); diff != "" {
		t.Errorf("default limits of a step (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sandbox.Limits{Memory: 8 << 30, CPU: 4, PIDs: 256, Disk: 20 << 30}, most); diff != "" {
		t.Errorf("maxima for a step (-want +got):\n%s", diff)
	}
	t.Setenv("DVT_SANDBOX_MAX", "memory=1Gi,pids=64")
	c = configtest.MustLoad(t, false, "sandbox-memory: 512Mi\nsandbox-cpu: 0.5\nsandbox-pids: 32\nsandbox-disk: "+
		"1Gi\nsandbox-read: [/srv/shared/]")
	normal, most = stepLimits(t, c)
	if diff := cmp.Diff(sandbox.Limits{Memory: 512 << 20, CPU: 0.5, PIDs: 32, Disk: 1 << 30}, normal); diff != "" {
		t.Errorf("default limits of a step (-want +got):\n%s", diff)
	}
	if most.Memory != 1<<30 || most.PIDs != 64 || most.CPU < 1000 {
		t.Errorf("the maxima for a step are %+v, want 1Gi, 64 and no limit on cores", most)
	}
	if diff := cmp.Diff([]string{"/srv/shared"}, c.SandboxRead); diff != "" {
		t.Errorf("sandbox-read (-want +got):\n%s", diff)
	}
}

func TestLoad_NamesEverythingWrongWithTheSandbox(t *testing.T) {
	_, err := configtest.Load(t, false, `
sandbox-runtime: chroot
sandbox-memory: 1Mi
sandbox-cpu: -1
sandbox-pids: 3
sandbox-disk: 5GB
sandbox-max: [memory=many, swap=1Gi, pids=20, pids=30]
sandbox-read: [shared, /]
sandbox-roots: [relative/path]
sandbox-allow-missing: [firewall]
`)
	if err == nil {
		t.Fatal("invalid settings were accepted")
	}
	for _, want := range []string{
		`sandbox-runtime: "chroot" is not one of process, docker, gvisor, none`,
		`sandbox-memory: memory must be a size from 16Mi to 16Ti, such as 512Mi or 2Gi, not "1Mi"`,
		`sandbox-cpu: cpu must be a number of cores from 0.01 to 1024, not "-1"`,
		`sandbox-pids: pids must be a whole number from 8 to 32768, not "3"`,
		`sandbox-disk: disk must be a size from 1Mi to 16Ti, such as 512Mi or 2Gi, not "5GB"`,
		`sandbox-max: memory must be a size`, `sandbox-max: "swap" is not one of memory, cpu, pids, disk`,
		"sandbox-max: pids is given twice",
		`sandbox-read: "shared" must be an absolute path, and not /`, `sandbox-read: "/" must be an absolute path`,
		`sandbox-roots: "relative/path" must be an absolute path`,
		`sandbox-allow-missing: "firewall" is not one of files, network, connect, processes, syscalls, memory, cpu, pids`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s: %v", want, err)
		}
	}
	if _, err = configtest.Load(t, false, "sandbox-runtime: docker"); err == nil || !strings.Contains(err.Error(),
		"sandbox-image is missing") {
		t.Errorf("docker without an image: %v, want an error that names sandbox-image", err)
	}
	_, err = configtest.Load(t, false, "sandbox-memory: 4Gi\nsandbox-max: [memory=2Gi]")
	if want := "the maximum for a step is below the default for a step"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want one that says %s", err, want)
	}
}
