package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// victimFile names the environment variable with the file to which a child process writes until it is killed.
const victimFile = "DVT_TEST_VICTIM_FILE"

const victims = 16 // the number of appenders; each one has its own run

// TestVictim is the main function of the process that TestCrash kills. It appends pairs of events without end and
// prints which were acknowledged.
func TestVictim(t *testing.T) {
	path := os.Getenv(victimFile)
	if path == "" {
		return // not a child process
	}
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range victims {
		id := fmt.Sprintf("run-%02d", i)
		newWideRun(t, s, id, 1)
		wg.Go(func() {
			for n := 1; ; n++ {
				_, err := s.Append(context.Background(), store.Append{RunID: id, Events: []run.Draft{
					runtest.Draft(run.StepStartedEvent, "s0000", n), runtest.Draft(run.StepFailedEvent, "s0000", n),
				}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				fmt.Printf("acknowledged %s %d\n", id, n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// Every acknowledged append survives a kill of its process in the middle of a group, and no append is stored partly.
// contract: T27
func TestCrash_NothingAcknowledgedIsLost(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		path := filepath.Join(t.TempDir(), "dvt.db")
		cmd := exec.Command(os.Args[0], "-test.run", "^TestVictim$")
		cmd.Env = append(os.Environ(), victimFile+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := map[string]int{}
		lines := bufio.NewScanner(out)
		for count := 0; lines.Scan(); count++ {
			var id string
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "acknowledged %s %d", &id, &n); err != nil {
				t.Fatalf("the process printed %q, want an acknowledgement", lines.Text())
			}
			acknowledged[id] = n
			if count == 200+50*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the process ended with %v, want killed", err)
		}
		s := open(t, path, Options{})
		for i := range victims {
			id := fmt.Sprintf("run-%02d", i)
			l, err := s.Load(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			last := l.Head.LastSeq
			if want := run.Seq(1 + 2*acknowledged[id]); last < want || last%2 == 0 || l.State.Seq != last {
				t.Errorf("%s: head %d and state %d, want the same odd seq of at least %d", id, last, l.State.Seq, want)
			}
			evs, err := s.EventsBefore(t.Context(), id, last+1, 2)
			if err != nil || len(evs) == 0 || evs[0].Seq != last {
				t.Errorf("%s: last events %v, %v; want the last one at the head %d", id, evs, err, last)
			}
		}
	}
}
