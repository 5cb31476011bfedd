package run_test

import (
	"testing"

	"github.com/dvt-engine/dvt/run"
)

func TestGate_String(t *testing.T) {
	t.Parallel()
	for gate, want := range map[run.Gate]string{
		0:                                  "open",
		run.GateFailing:                    "failing",
		run.GatePaused | run.GateOverlaid:  "paused, overlaid",
		run.GateStopped | run.GateOverlaid: "stopped, overlaid",
		run.GatePaused | run.GateFailing:   "paused, failing",
	} {
		if got := gate.String(); got != want {
			t.Errorf("gate %04b is %q, want %q", uint8(gate), got, want)
		}
	}
}
