package run_test

import (
	"regexp"
	"testing"

	"github.com/dvt-engine/dvt/run"
)

// contract: A02
func TestKey_HasTheValuesOfTheTestVectors(t *testing.T) {
	t.Parallel()
	id := run.Identity{RunID: "8c5b1d9e-7f0a-4c1b-9a55-2f6d3e4b7a10", PlanID: "plan-3", PlanVersion: "1.0"}
	const signal = "11111111-1111-4111-8111-111111111111"
	tests := []struct {
		name  string
		draft run.Draft
		want  run.Key
	}{
		{"run", run.Draft{Type: run.RunStarted, LogicalAttempt: 1},
			"60977858e4ebb84692607c2b13ba5a1377fc19f83cfb39c74b7d884b5585efcc"},
		{"step", run.Draft{Type: run.StepStartedEvent, StepID: "s1", LogicalAttempt: 1},
			"e19c8d6ebb559eaf8ba50c5d56e0b1d613ec1fe904620f40a05845323fdddd2f"},
		{"second attempt", run.Draft{Type: run.StepStartedEvent, StepID: "s1", LogicalAttempt: 2},
			"5ef3315cc7e01c86b5c8c87f864d2ca8c76b0c2a915eda7774e58666aefbe646"},
		{"first pause", run.Draft{Type: run.RunPaused, LogicalAttempt: 1},
			"14c90ae39078fc93bbe4b1a2fca8e6b8093278467a23404d497d221374da05d6"},
		{"second pause", run.Draft{Type: run.RunPaused, LogicalAttempt: 2},
			"db23099b5b320c3409ef9b8dd80a8c4366e1873749c5bca56b3c581f5f7f388d"},
		{"signal", run.Draft{Type: run.SignalAccepted, SignalID: signal, LogicalAttempt: 1},
			"6bcb18ac2bfd68fe7ce5abf7ecc25a100c6412a7e1ac58db3d298a174ee80fe5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.draft.Key(id); got != tt.want {
				t.Errorf("Key() = %s, want %s", got, tt.want)
			}
			repeated := tt.draft
			repeated.EngineAttempt, repeated.EmittedBy = 7, run.ByControl
			if got := repeated.Key(id); got != tt.want {
				t.Errorf("Key() of a repetition = %s, want %s", got, tt.want)
			}
		})
	}
	const request = "c7ece4e6b9f9dcca71577ea93b8af04b380172676272c18e293a908260deb36f"
	if got := run.RequestKey("t1", "p1", "sandbox", "plan-3", "1.0", "req-1"); got != request {
		t.Errorf("RequestKey() = %s, want %s", got, request)
	}
}

// contract: T198
func TestEventID_IsAStableV4UUID(t *testing.T) {
	t.Parallel()
	a, b := run.Key("a").EventID(), run.Key("b").EventID()
	v4 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if !v4.MatchString(a) || a != run.Key("a").EventID() || a == b {
		t.Errorf("EventID() = %s and %s, want two stable v4 UUIDs", a, b)
	}
}
