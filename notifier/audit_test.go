package notifier_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/auditdoc"
	"github.com/dvt-engine/dvt/store/sqlite"
)

var auditRoute = destination.Route{Topics: []destination.Topic{destination.Audit}}

// act writes n records of a tenant and links them.
func (f *fixture) act(tenant string, from, n int) {
	f.Helper()
	for k := range n {
		err := f.store.Audit(f.Context(), store.AuditRow{ID: recordID(tenant, from+k), TenantID: tenant, Actor: "ana",
			Action: "START", Outcome: "ACCEPTED", Reason: "two  spaces, <tags> and \u2028", Detail: []byte(`{"a":  1}`)})
		if err != nil {
			f.Fatal(err)
		}
		if _, err := f.store.LinkAudit(f.Context(), 100); err != nil {
			f.Fatal(err)
		}
	}
}

func recordID(tenant string, n int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012d", len(tenant), n)
}

// checkChain checks records of one tenant in the order of their arrival: no gap, equal hashes of repetitions, and each
// hash continues the one before.
func checkChain(t *testing.T, docs []auditdoc.Doc, want int) (repeated int) {
	t.Helper()
	last := int64(0)
	hashes := map[int64]string{}
	for _, d := range docs {
		if err := d.Verify(); err != nil {
			t.Fatalf("record %d does not verify: %v", d.No, err)
		}
		switch {
		case d.No > last+1:
			t.Fatalf("record %d arrived after %d; want no gap", d.No, last)
		case d.No <= last:
			repeated++
			if hashes[d.No] != d.Hash {
				t.Errorf("record %d arrived again with another hash", d.No)
			}
		case d.No > 1 && d.Previous != hashes[d.No-1]:
			t.Errorf("record %d does not continue the one before", d.No)
		}
		hashes[d.No], last = d.Hash, max(last, d.No)
	}
	if last != int64(want) {
		t.Fatalf("the last record is %d, want %d", last, want)
	}
	return repeated
}

func docsOf(t *testing.T, messages []destination.Message, tenant string) (out []auditdoc.Doc) {
	t.Helper()
	for _, m := range messages {
		if m.Topic != destination.Audit || m.TenantID != tenant {
			continue
		}
		var d auditdoc.Doc
		if err := json.Unmarshal(m.Data, &d); err != nil {
			t.Fatal(err)
		}
		if d.ID != m.ID || uint64(d.No) != m.Seq {
			t.Errorf("the message %s has the record %s", m.ID, d.ID)
		}
		out = append(out, d)
	}
	return out
}

func TestAudit_EachTenantsChainArrivesInOrderAndOnlyWhereARouteNamesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, destination.Config{Name: "all", Kind: destination.Webhook, Route: auditRoute},
		destination.Config{Name: "acme", Kind: destination.Syslog, Route: destination.Route{Topics: auditRoute.Topics,
			Tenants: []string{"acme"}}},
		destination.Config{Name: "other", Kind: destination.Webhook})
	f.act("acme", 0, 250) // before the destination exists, and more than a page
	f.act("globex", 0, 3)
	f.act("", 0, 2)
	stop := f.start(f.store, "one")
	arrived := func(name, tenant string, n int) func() bool {
		return func() bool { return len(docsOf(t, f.receivers[name].messages(), tenant)) >= n }
	}
	f.waitFor("the chain of acme", arrived("all", "acme", 250))
	f.waitFor("the chain of globex", arrived("all", "globex", 3))
	f.waitFor("the chain of the installation", arrived("all", "", 2))
	f.waitFor("the chain at its own destination", arrived("acme", "acme", 250))
	time.Sleep(f.timing.Lease) // until the position is saved
	stop()
	f.act("acme", 250, 5)
	f.start(f.store, "two")
	f.waitFor("the records after a restart", arrived("all", "acme", 255))
	f.waitFor("the records after a restart", arrived("acme", "acme", 255))
	if n := checkChain(t, docsOf(t, f.receivers["all"].messages(), "acme"), 255); n > 0 {
		t.Errorf("%d records arrived again after a restart in order, want 0", n)
	}
	checkChain(t, docsOf(t, f.receivers["all"].messages(), "globex"), 3)
	checkChain(t, docsOf(t, f.receivers["all"].messages(), ""), 2)
	for _, m := range f.receivers["acme"].messages() {
		if m.TenantID != "acme" {
			t.Errorf("the destination of acme got a record of %q", m.TenantID)
		}
	}
	for _, m := range f.receivers["other"].messages() {
		if m.Topic == destination.Audit {
			t.Error("a destination without a route got a record of the audit")
		}
	}
}

// A receiver that refuses everything gets everything in order when it is repaired: at most one record is a dead letter,
// whose text is not in the store.
func TestAudit_ARefusalOfEverythingMakesOneDeadLetter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, destination.Config{Name: "siem", Kind: destination.Webhook, Route: auditRoute})
	f.timing.Tries = 3
	var refuse atomic.Bool
	refuse.Store(true)
	f.receivers["siem"].answer = func(context.Context, destination.Message) error {
		if refuse.Load() {
			return &destination.RejectedError{Reason: "403"}
		}
		return nil
	}
	f.act("acme", 0, 20)
	f.start(f.store, "one")
	f.waitFor("the alert", func() bool { return f.hasAlert(run.CodeDestinationFailing) })
	dead := f.deadOf("siem")
	if len(dead) != 1 || strings.Contains(string(dead[0].Message), "ana") {
		t.Fatalf("there are %d dead letters, the first %s; want one without the record", len(dead), dead[0].Message)
	}
	refuse.Store(false)
	f.waitFor("the other records", func() bool { return len(f.receivers["siem"].messages()) == 19 })
	order := store.DestinationOrder{ID: "00000000-0000-4000-8000-00000000000a", Destination: "siem",
		Kind: store.OrderRedrive, Doc: []byte(`{}`)}
	if _, err := f.store.PutDestinationOrder(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	f.waitFor("the dead letter", func() bool { return len(f.receivers["siem"].messages()) == 20 })
	docs := docsOf(t, f.receivers["siem"].messages(), "acme")
	if first := docs[len(docs)-1]; first.No != 1 || first.Verify() != nil {
		t.Errorf("the redriven record is number %d, want the first one, whole", first.No)
	}
	for k, d := range docs[:19] {
		if d.No != int64(k+2) {
			t.Fatalf("record %d arrived as number %d of those that waited; want the order of the chain", d.No, k+1)
		}
	}
}

func (f *fixture) deadOf(name string) []store.DeadDelivery {
	f.Helper()
	dead, err := f.store.DeadDeliveries(f.Context(), store.DeadDeliveryFilter{Destination: name, Limit: 100})
	if err != nil {
		f.Fatal(err)
	}
	return dead
}

func (f *fixture) hasAlert(code run.Code) bool {
	f.Helper()
	open, err := f.store.ListOpenAlerts(f.Context(), []run.Code{code}, 10)
	if err != nil {
		f.Fatal(err)
	}
	return len(open) > 0
}

// A sink that accepts, but slower than records come, raises an alert.
func TestAudit_ASlowSinkRaisesAnAlert(t *testing.T) {
	t.Parallel()
	f := newFixture(t, destination.Config{Name: "siem", Kind: destination.Webhook, Route: auditRoute})
	var fast atomic.Bool
	f.receivers["siem"].answer = func(context.Context, destination.Message) error {
		if !fast.Load() {
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}
	f.act("acme", 0, 100)
	f.start(f.store, "one")
	f.waitFor("the alert", func() bool { return f.hasAlert(run.CodeDestinationFailing) })
	fast.Store(true)
	f.waitFor("the end of the alert", func() bool { return !f.hasAlert(run.CodeDestinationFailing) })
	checkChain(t, docsOf(t, f.receivers["siem"].messages(), "acme"), 100)
}

// auditChild makes this program a notifier that is killed.
const auditChild = "NOTIFIER_TEST_AUDIT"

type auditProcess struct{ Store, File, Hook, Secret string }

func runAuditProcess(text string) {
	var p auditProcess
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	s, err := sqlite.Open(context.Background(), p.Store, sqlite.Options{})
	if err != nil {
		panic(err)
	}
	n := notifier.New(notifier.Config{
		Store: s, Alerts: raiser{s}, Owner: fmt.Sprint(os.Getpid()),
		Timing: notifier.Timing{Idle: 5 * time.Millisecond, Lease: 40 * time.Millisecond, FirstRetry: 5 * time.Millisecond,
			LastRetry: 20 * time.Millisecond, SendTimeout: 100 * time.Millisecond, Tries: 1000},
		Load: func() ([]destination.Config, error) {
			return []destination.Config{
				{Name: "file", Kind: destination.File, URL: "file://" + p.File + "?maxMB=1", Route: auditRoute},
				{Name: "hook", Kind: destination.Webhook, URL: p.Hook, Route: auditRoute,
					Secrets: []destination.SecretRef{{File: p.Secret}}},
			}, nil
		},
		NewSender: func(c destination.Config) (destination.Sender, error) {
			return send.New(c, send.Options{AllowPrivate: true})
		},
	})
	_ = n.Run(context.Background())
}

// The real senders of a file and of webhooks work in a process that is killed again and again, while the receiver of
// the webhooks answers 500, redirects, hangs and ends the connection: each record is there, in order, with the same id.
func TestAudit_NothingIsLostOverKillsAndOutages(t *testing.T) {
	t.Parallel()
	const kills, each = 8, 25
	dir := t.TempDir()
	p := auditProcess{Store: filepath.Join(dir, "dvt.db"), File: filepath.Join(dir, "audit.ndjson"),
		Secret: filepath.Join(dir, "key")}
	key := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	if err := os.WriteFile(p.Secret, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), p.Store, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f := &fixture{T: t, store: s, receivers: map[string]*receiver{}}
	got := &receiver{}
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch requests.Add(1) % 9 {
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case 4:
			http.Redirect(w, r, "https://elsewhere.example", http.StatusFound)
			return
		case 6:
			time.Sleep(150 * time.Millisecond)
			return
		case 8:
			panic(http.ErrAbortHandler)
		}
		var e struct {
			ID       string          `json:"id"`
			TenantID string          `json:"tenantid"`
			Data     json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(body, &e); err == nil {
			var d auditdoc.Doc
			_ = json.Unmarshal(e.Data, &d)
			got.mu.Lock()
			got.got = append(got.got, destination.Message{ID: e.ID, Topic: destination.Audit, TenantID: e.TenantID, Data: e.Data,
				Seq: uint64(d.No)})
			got.mu.Unlock()
		}
	}))
	t.Cleanup(srv.Close)
	p.Hook = srv.URL
	env, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for k := range kills + 1 {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), auditChild+"="+string(env))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		f.act("acme", k*each, each)
		before := len(got.messages())
		f.waitFor("some records", func() bool {
			if k < kills {
				return len(got.messages()) > before+k
			}
			docs := docsOf(t, got.messages(), "acme")
			lines := fileDocs(t, p.File)
			return len(docs) > 0 && docs[len(docs)-1].No == (kills+1)*each && len(lines) > 0 &&
				lines[len(lines)-1].No == (kills+1)*each
		})
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
	}
	hook := checkChain(t, docsOf(t, got.messages(), "acme"), (kills+1)*each)
	file := checkChain(t, fileDocs(t, p.File), (kills+1)*each)
	t.Logf("%d records over %d kills, repeated: %d by webhooks, %d in the file", (kills+1)*each, kills, hook, file)
}

// fileDocs reads the whole lines of a file.
func fileDocs(t *testing.T, path string) (out []auditdoc.Doc) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return out
		}
		var d auditdoc.Doc
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatalf("a line of the file is broken: %q", line)
		}
		out = append(out, d)
	}
}
