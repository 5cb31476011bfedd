package projector_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// A child process gets its instructions from the environment.
const (
	envStage = "DVT_TEST_DIES"
	envStore = "DVT_TEST_STORE"
	envRedis = "DVT_TEST_REDIS"
)

func TestMain(m *testing.M) {
	if stage := os.Getenv(envStage); stage != "" {
		fmt.Fprintln(os.Stderr, "still alive:", appendAndDie(context.Background(), stage))
		os.Exit(1)
	}
	verify(m)
}

// killing kills the process at a given stage.
type killing struct {
	store.Store
	live.Bus
	stage string
}

func (k *killing) at(stage string) {
	if k.stage == stage {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (k *killing) Advance(ctx context.Context, published []store.PublishedTo, save []store.CheckpointSave) ([]bool,
	error) {
	if len(published) > 0 {
		k.at("before clear")
	}
	if len(save) > 0 {
		k.at("before save")
	}
	saved, err := k.Store.Advance(ctx, published, save)
	if len(save) > 0 {
		k.at("after save")
	}
	return saved, err
}

func (k *killing) Publish(ctx context.Context, m live.Message) error {
	k.at("before publish")
	err := k.Bus.Publish(ctx, m)
	k.at("after publish")
	return err
}

func (k *killing) Close() error { return nil }

var fourth = runtest.Draft(run.StepCompletedEvent, steps[0], 1)

// appendAndDie commits an event and projects it until the given stage kills the process.
func appendAndDie(ctx context.Context, stage string) error {
	s, err := sqlite.Open(ctx, os.Getenv(envStore), sqlite.Options{})
	if err != nil {
		return err
	}
	bus, err := redisbus.Open(redisbus.Config{URL: os.Getenv(envRedis)})
	if err != nil {
		return err
	}
	runID := identity(1).RunID
	if _, err := s.Append(ctx, store.Append{RunID: runID, Events: []run.Draft{fourth}}); err != nil {
		return err
	}
	k := &killing{Store: s, Bus: bus, stage: stage}
	return projector.New(k, k, projector.Config{}).Project(ctx, runID)
}

// contract: O01, W-1
func TestProjector_KilledProcessLosesNoMessage(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"before publish", "after publish", "before save", "after save", "before clear"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			file, url := filepath.Join(t.TempDir(), "dvt.db"), "redis://"+testserver.Redis(t).Addr+"/0"
			s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			bus, err := redisbus.Open(redisbus.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = bus.Close() })
			runID := create(t, s, 1)
			begin(t, s, runID, 0)
			p := projector.New(s, bus, projector.Config{})
			if err := p.Project(t.Context(), runID); err != nil {
				t.Fatal(err)
			}
			st := watch(t, s, bus, runID) // on another instance that keeps running
			framesUntil(t, st, liveAt(3))

			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
			child.Env = append(os.Environ(), envStage+"="+stage, envStore+"="+file, envRedis+"="+url)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the process was not killed: %v\n%s", err, out)
			}
			if clean(t, s)() {
				t.Fatal("the dirty mark was cleared before the work was complete")
			}

			if stage == "before save" { // the viewer has seen more than is saved; a new viewer must see as much
				framesUntil(t, st, liveAt(4))
				if l, err := s.Load(t.Context(), runID); err != nil || l.CheckpointAt >= 4 || l.State.Seq != 4 {
					t.Errorf("checkpoint is at %d, a reader sees %d, error %v", l.CheckpointAt, l.State.Seq, err)
				}
				framesUntil(t, watch(t, s, bus, runID), func(f live.Frame) bool {
					if f.State.Seq < 4 {
						t.Errorf("a new viewer starts at %d", f.State.Seq)
					}
					return true
				})
			}
			restarted := time.Now()
			start(t, projector.New(s, bus, projector.Config{}))
			eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
			if d := time.Since(restarted); d > testtime.Of(2*time.Second) {
				t.Errorf("published only %v after the restart", d)
			}
			if stage != "before save" {
				for _, f := range framesUntil(t, st, liveAt(4)) {
					if f.Sync != live.Live {
						t.Errorf("unexpected frame %s(%s)", f.Sync, f.Reason)
					}
				}
			}
			again, err := s.Append(t.Context(), store.Append{RunID: runID, Events: []run.Draft{fourth}})
			if err != nil || !again.Outcomes[0].Deduplicated || again.Outcomes[0].Seq != 4 {
				t.Errorf("repeated append returned %+v, %v", again.Outcomes, err)
			}
			if evs, err := s.Events(t.Context(), runID, 0, 100); err != nil || len(evs) != 4 {
				t.Errorf("the log has %d events, error %v", len(evs), err)
			}
		})
	}
}
