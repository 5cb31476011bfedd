package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryPressure_IsTheHighestOfAGroupAndItsParents(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{
		"system/memory.max": "1000\n", "system/memory.current": "500\n",
		"system/dvt/memory.max": "max\n", "system/dvt/memory.current": "400\n",
		"system/dvt/leaf/memory.max": "400\n", "system/dvt/leaf/memory.current": "300\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for group, want := range map[string]float64{"0::/system/dvt/leaf\n": 0.75, "0::/system/dvt\n": 0.5} {
		if got, ok := groupPressure(root, group); !ok || got != want {
			t.Errorf("the pressure of %q is %v, %t, want %v", group, got, ok, want)
		}
	}
	if got, ok := groupPressure(root, "0::/\n"); ok {
		t.Errorf("a group without a limit has the pressure %v, want none", got)
	}
	if got := machinePressure([]byte("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n")); got != 0.75 {
		t.Errorf("the pressure of the machine is %v, want 0.75", got)
	}
}
