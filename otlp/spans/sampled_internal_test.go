package spans

import (
	"fmt"
	"hash/maphash"
	"testing"

	runtrace "github.com/dvt-engine/dvt/run/trace"
)

// More runs than there is memory for get the same decision as without memory, again and again.
func TestTracer_RemembersWhichRunsAreSampled(t *testing.T) {
	tracer := &Tracer{cfg: Config{Ratio: 0.3, Runs: 1}, seed: maphash.MakeSeed()}
	ids := make([]string, 4*len(tracer.sampled))
	for i := range ids {
		ids[i] = fmt.Sprintf("5f0c3b1e-6a7d-4c52-9b1e-%012d", i)
	}
	for range 3 {
		for _, id := range ids {
			if got, want := tracer.samplesCallsFor(id), tracer.samplesRun(runtrace.IDOf(id)); got != want {
				t.Fatalf("samplesCallsFor(%q) = %t, want %t", id, got, want)
			}
		}
	}
	tracer.samplesCallsFor(ids[0])
	if n := testing.AllocsPerRun(100, func() { tracer.samplesCallsFor(ids[0]) }); n > 0 {
		t.Errorf("a known run takes %.1f allocations, want none", n)
	}
}
