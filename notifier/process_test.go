package notifier_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// childStore is the variable by which the test's program knows that it is a notifier process. childURL is its receiver.
const (
	childStore = "NOTIFIER_TEST_STORE"
	childURL   = "NOTIFIER_TEST_URL"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childStore); path != "" {
		runChild(path, os.Getenv(childURL))
		return
	}
	if text := os.Getenv(auditChild); text != "" {
		runAuditProcess(text)
		return
	}
	if text := os.Getenv(lineageChild); text != "" {
		runLineageProcess(text)
		return
	}
	if os.Getenv(campaignFile) != "" {
		runCampaignProcess()
		return
	}
	os.Exit(m.Run())
}

// runChild is a process that delivers to one receiver until it is killed.
func runChild(path, url string) {
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	n := notifier.New(notifier.Config{
		Store: s, Alerts: raiser{s}, Owner: fmt.Sprint(os.Getpid()),
		Timing: notifier.Timing{Idle: 5 * time.Millisecond, Lease: 40 * time.Millisecond},
		Load: func() ([]destination.Config, error) {
			return []destination.Config{{Name: "a", Kind: destination.Webhook, URL: url}}, nil
		},
		NewSender: func(c destination.Config) (destination.Sender, error) { return newPoster(c), nil },
	})
	_ = n.Run(context.Background())
}

// poster posts messages as JSON. It stands for the sender of webhooks, which signs and guards besides.
type poster struct {
	url    string
	client *http.Client
}

func newPoster(c destination.Config) *poster {
	return &poster{c.URL, &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 4},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (p *poster) Send(ctx context.Context, m destination.Message) error {
	doc, err := json.Marshal(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(doc))
	if err != nil {
		return err
	}
	res, err := p.client.Do(req)
	if err != nil {
		return errors.New("no answer")
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, 200)
	switch {
	case res.StatusCode < 300:
		return nil
	case res.StatusCode < 400:
		return &destination.RejectedError{Reason: "it redirects"}
	}
	return fmt.Errorf("it answered %d", res.StatusCode)
}

func (p *poster) Close() error { p.client.CloseIdleConnections(); return nil }

// accepter is an HTTP receiver that keeps what it accepted.
type accepter struct {
	mu  sync.Mutex
	got []destination.Message
}

func (a *accepter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var m destination.Message
	if json.NewDecoder(r.Body).Decode(&m) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got = append(a.got, m)
}

func (a *accepter) messages() []destination.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.got)
}

// Real processes are killed at any moment, also between a send and the save of the position.
func TestProcess_AKilledOneLosesNothingAndRepeatsOnlyEqualIDs(t *testing.T) {
	const kills, runs = 8, 3
	path := filepath.Join(t.TempDir(), "dvt.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f := &fixture{T: t, store: s, receivers: map[string]*receiver{}}
	a := &accepter{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(3 * time.Millisecond) // so that positions are saved while messages wait
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	spawn := func() *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), childStore+"="+path, childURL+"="+srv.URL)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for k := range kills + 1 {
		c := spawn()
		if k == 0 { // only what happens after the first lease is sent
			f.waitFor("the lease of the process", func() bool {
				_, err := s.LeaseCursor(t.Context(), "notify/a", "stranger", time.Millisecond)
				return errors.Is(err, store.ErrConflict)
			})
			time.Sleep(50 * time.Millisecond)
		}
		for i := range runs {
			f.startRun(fmt.Sprintf("r%d.%d", k, i), "acme", 30)
		}
		before := len(a.messages())
		if k < kills {
			f.waitFor("some messages", func() bool { return len(a.messages()) > before+7*(k+1) })
		} else {
			f.waitFor("all messages", func() bool {
				last := map[string]uint64{}
				for _, m := range a.messages() {
					last[m.RunID] = max(last[m.RunID], m.Seq)
				}
				for k := range kills + 1 {
					for i := range runs {
						if id := fmt.Sprintf("r%d.%d", k, i); last[id] != f.head(id) {
							return false
						}
					}
				}
				return true
			})
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
	}
	ids, last, repeated := map[string]string{}, map[string]uint64{}, 0
	for _, m := range a.messages() {
		key := fmt.Sprint(m.RunID, "/", m.Seq)
		if id, found := ids[key]; found {
			if repeated++; id != m.ID {
				t.Errorf("event %s arrived with the ids %s and %s; want one", key, id, m.ID)
			}
		}
		ids[key] = m.ID
		if m.Seq > last[m.RunID]+1 {
			t.Errorf("event %d of %s arrived after %d; want no gap", m.Seq, m.RunID, last[m.RunID])
		}
		last[m.RunID] = max(last[m.RunID], m.Seq)
	}
	t.Logf("%d messages, %d of them repetitions, over %d kills", len(a.messages()), repeated, kills)
}
