package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
)

// testHealthHistory checks that the samples count the frames of a viewer, and that only an SRE of the operators' tenant
// reads them.
func (o *proxiedServer) testHealthHistory(t *testing.T) {
	began := time.Now()
	steps := make([]string, 40) // a slow machine has seconds without a frame or without health
	for i := range steps {
		after := ""
		if i > 0 {
			after = fmt.Sprintf(`"s%d"`, i-1)
		}
		steps[i] = fmt.Sprintf(`{"stepId":"s%d","type":"SLEEP","inputs":{"ms":500},"dependsOn":[%s],"timeout":"1m"}`, i,
			after)
	}
	id := start(t, o.clientOf("ada"), "measured", stepsPlan("measured", steps...))
	t.Cleanup(func() {
		reason := "it was measured"
		_, err := client.CancelRun(context.WithoutCancel(t.Context()), o.clientOf("ada"), client.CancelRunInput{RunId: id,
			SignalId: "measured", Reason: &reason})
		must(t, err)
	})
	watch(t, o.clientOf("ada"), id).waitForLive(4, 30*time.Second)
	read := func(token string) answer {
		return ask(t, o.base,
			`{ healthHistory { server since intervalMs samples { at status lagP50Ms lagP99Ms framesPerSecond viewers streams staleStreams stateStoreMs temporalMs } } }`, nil, "Authorization: Bearer "+accountToken(token))
	}
	for _, who := range []string{"ada", "ana", "gus"} {
		if a := read(who); a.code() != "FORBIDDEN" || strings.Contains(a.body, "samples") {
			t.Errorf("the health history for %s: %s, want FORBIDDEN", who, a.body)
		}
	}
	measured := func() bool {
		var out struct {
			Data struct {
				HealthHistory struct {
					Server     string
					Since      time.Time
					IntervalMs int
					Samples    []struct {
						At                 time.Time
						Status             string
						LagP50Ms, LagP99Ms *float64
						FramesPerSecond    float64
						Viewers, Streams   int
						StateStoreMs       *float64
						TemporalMs         *float64
					}
				}
			}
		}
		a := read("sid")
		must(t, json.Unmarshal([]byte(a.body), &out))
		h := out.Data.HealthHistory
		if h.Server == "" || h.IntervalMs != 1000 || h.Since.IsZero() || h.Since.After(time.Now()) {
			t.Fatalf("the health history is %s, want a server, an interval of 1000 ms and a time of its start", a.body)
		}
		for i, s := range h.Samples {
			if i > 0 && !s.At.After(h.Samples[i-1].At) {
				t.Fatalf("sample %d is not after the one before: %s", i, a.body)
			}
			if s.At.After(began) && s.Status == "HEALTHY" && s.LagP50Ms != nil && *s.LagP50Ms > 0 &&
				*s.LagP99Ms >= *s.LagP50Ms && s.FramesPerSecond > 0 && s.Viewers >= 1 && s.Streams >= 1 &&
				s.StateStoreMs != nil && *s.StateStoreMs > 0 && s.TemporalMs != nil && *s.TemporalMs > 0 {
				return true
			}
		}
		return false
	}
	waitUntil(t, "a healthy sample counts the frames of the viewer", 30*time.Second, measured)
}
