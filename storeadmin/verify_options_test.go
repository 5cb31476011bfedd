package storeadmin_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/storeadmin"
)

// contract: T30
func TestVerify_LeavesOutRunsOfAnotherTime(t *testing.T) {
	onEach(t, func(d *db) {
		older := d.createRandom(1).RunID
		time.Sleep(5 * time.Millisecond)
		newer := d.createRandom(2).RunID
		must(d.T, d.exec(`UPDATE run_head SET running = running + 1`)) // a difference in each
		made, err := d.Get(d.Context(), newer)
		must(d.T, err)
		for _, c := range []struct {
			name string
			o    storeadmin.VerifyOptions
			want []string
		}{
			{"no bound", storeadmin.VerifyOptions{}, []string{older, newer}},
			{"from when the newer run was created", storeadmin.VerifyOptions{From: made.CreatedAt}, []string{newer}},
			{"until the newer run was created", storeadmin.VerifyOptions{To: made.CreatedAt}, []string{older}},
			{"from the last event of the older run", storeadmin.VerifyOptions{From: d.head(older).LastAt},
				[]string{older, newer}},
			{"a time before both", storeadmin.VerifyOptions{To: made.CreatedAt.Add(-time.Hour)}, nil},
			{"a time after both", storeadmin.VerifyOptions{From: time.Now().Add(time.Hour)}, nil},
		} {
			out, err := storeadmin.Verify(d.Context(), d.Store, c.o, nil)
			must(d.T, err)
			var got []string
			for _, a := range out.Affected {
				got = append(got, a.RunID)
				if a.Differences != 1 || a.TenantID != made.TenantID || a.PlanID != made.PlanID || a.CreatedAt.IsZero() ||
					!a.LastAt.Equal(d.head(a.RunID).LastAt) {
					d.Errorf("%s: affected run %+v, want 1 difference and its facts", c.name, a)
				}
			}
			if !slices.Equal(got, c.want) || out.Runs != len(c.want) {
				d.Errorf("%s: %d runs verified, affected %v; want %v", c.name, out.Runs, got, c.want)
			}
		}
	})
}

func TestVerify_ReadsTheArtifactsThatStepsReported(t *testing.T) {
	onEach(t, func(d *db) {
		id := identity(1)
		_, _, err := d.CreateRun(d.Context(), newRun(id))
		must(d.T, err)
		withArtifact := func(end run.EventType, attempt int, uri string) run.Draft {
			draft := runtest.Draft(end, "a", attempt)
			payload := map[string]any{"artifactRefs": []run.ArtifactRef{{URI: uri, Kind: "custom", SizeBytes: 4}}}
			if end == run.StepFailedEvent {
				payload["errorCode"], payload["retryable"] = "OTHER", true
			} else {
				payload["durationMs"] = 1
			}
			draft.Payload = runtest.JSON(payload)
			return draft
		}
		for _, e := range runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("a"),
			runtest.Draft(run.StepStartedEvent, "a", 1), withArtifact(run.StepFailedEvent, 1, "dvt-artifact:first"),
			runtest.Draft(run.StepStartedEvent, "a", 2), withArtifact(run.StepCompletedEvent, 2, "dvt-artifact:second"),
		) {
			d.write(id, e)
		}
		var mu sync.Mutex
		var asked []string
		wrong := map[string]string{}
		o := storeadmin.VerifyOptions{Artifact: func(_ context.Context, s *run.State, ref run.ArtifactRef) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if s.RunID != id.RunID || s.Seq != 6 {
				d.Errorf("the artifact is asked for with the state of %s at %d, want %s at 6", s.RunID, s.Seq, id.RunID)
			}
			asked = append(asked, ref.URI)
			return wrong[ref.URI], nil
		}}
		out, err := storeadmin.Verify(d.Context(), d.Store, o, nil)
		must(d.T, err)
		if slices.Sort(asked); out.Artifacts != 2 || out.Differences != 0 ||
			!slices.Equal(asked, []string{"dvt-artifact:first", "dvt-artifact:second"}) {
			d.Errorf("asked for %v, result %+v; want both artifacts and no difference", asked, out)
		}
		wrong["dvt-artifact:first"] = "missing"
		out, err = storeadmin.Verify(d.Context(), d.Store, o, nil)
		must(d.T, err)
		if want := (storeadmin.Finding{RunID: id.RunID, Seq: 4, What: "artifact[dvt-artifact:first]", Stored: "missing",
			Expected: "the content that the step reported"}); !slices.Equal(out.Found, []storeadmin.Finding{want}) {
			d.Errorf("found %v, want %v", out.Found, want)
		}
		away := errors.New("the bucket is away")
		o.Artifact = func(context.Context, *run.State, run.ArtifactRef) (string, error) { return "", away }
		if _, err := storeadmin.Verify(d.Context(), d.Store, o, nil); !errors.Is(err, away) {
			d.Errorf("error %v, want that of the bucket", err)
		}
	})
}
