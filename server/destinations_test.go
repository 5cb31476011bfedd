package server_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// hookMessage is the body of a webhook.
type hookMessage struct {
	ID, Type, RunID, Sequence string
	Replayed                  bool
}

// hookReceiver is a system with a webhook over TLS. It refuses messages while status is not 200.
type hookReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []hookMessage
	status int
	pause  time.Duration
}

// newHookReceiver starts a receiver whose certificate the processes of the test trust.
func newHookReceiver(t *testing.T) *hookReceiver {
	t.Helper()
	r := &hookReceiver{status: http.StatusOK}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var m hookMessage
		_ = json.NewDecoder(q.Body).Decode(&m)
		r.mu.Lock()
		status, pause := r.status, r.pause
		if status == http.StatusOK {
			r.got = append(r.got, m)
		}
		r.mu.Unlock()
		time.Sleep(pause)
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	path := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", path)
	return r
}

func (r *hookReceiver) answer(status int, pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.pause = status, pause
}

func (r *hookReceiver) messages() []hookMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// seqs returns the positions of the events of a run in the order of their first arrival.
func (r *hookReceiver) seqs(runID string, replayed bool) (out []int) {
	for _, m := range r.messages() {
		n, _ := strconv.Atoi(m.Sequence)
		if m.RunID == runID && m.Replayed == replayed && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// destinationServers is a server with the duties project and notify, and one with the API only, which has no file of
// destinations.
type destinationServers struct {
	t        *testing.T
	notifier *process
	sam      *client.Client // an operator
	foreign  *client.Client // an administrator of another tenant
	store    store.Store
	receiver *hookReceiver
	file     string
}

func startDestinationServers(t *testing.T) *destinationServers {
	t.Helper()
	d := &destinationServers{t: t, receiver: newHookReceiver(t)}
	dsn, redis, temporal := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	dir := t.TempDir()
	d.file = filepath.Join(dir, "destinations.yaml")
	must(t, os.WriteFile(filepath.Join(dir, "key"), []byte("whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="), 0o600))
	must(t, os.WriteFile(d.file, fmt.Appendf(nil, "destinations: [{name: hook, kind: webhook, url: '%s/in?q=1', "+
		"secrets: [{file: %s/key}], allowPrivate: true, route: {topics: [events]}}]", d.receiver.URL, dir), 0o600))
	config := func(name, more string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, fmt.Appendf(nil, `
store: %s
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
artifacts: file://%s/artifacts?create_dir=true&no_tmp_dir=true
operators-tenant: acme
accounts:
  - {id: sam, tenant: acme, tokenSha256: %s, grants: [{role: SRE, project: "*", environment: "*"}]}
  - {id: mallory, tenant: globex, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"},
      {role: SRE, project: "*", environment: "*"}]}
%s
`, dsn, redis.Addr, temporal.Addr, temporal.Namespace, dir, tokenHash(samToken), tokenHash(malloryToken),
			more), 0o600))
		return path
	}
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	var err error
	d.store, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, d.store.Close()) })
	notifier, api := testserver.FreeAddress(t), testserver.FreeAddress(t)
	d.notifier = spawn(t, "the notifier", nil, "server", "--config", config("notifier.yaml",
		"duties: [project, notify]\ndestinations: "+d.file), "--listen", notifier)
	spawn(t, "the API", nil, "server", "--config", config("api.yaml", "duties: [api]"), "--listen", api)
	waitUntilReady(t, "http://"+api)
	d.sam, d.foreign = client.New("http://"+api, samToken), client.New("http://"+api, malloryToken)
	return d
}

// startRun writes a run with n starts of a step, which the projector of the notifier then publishes.
func (d *destinationServers) startRun(runID string, n int) int {
	d.t.Helper()
	id := runtest.ID
	id.RunID = runID
	events := []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1")}
	for i := range n {
		events = append(events, runtest.Draft(run.StepStartedEvent, "s1", i+1))
	}
	_, _, err := d.store.CreateRun(d.t.Context(), store.NewRun{Run: store.Run{Identity: id,
		RequestKey: run.Key("request " + runID)}, Events: events})
	must(d.t, err)
	heads, err := d.store.Heads(d.t.Context(), []string{runID})
	must(d.t, err)
	return int(heads.ByRun[runID].LastSeq)
}

func (d *destinationServers) show() client.ShowDestinationDestination {
	d.t.Helper()
	out, err := client.ShowDestination(d.t.Context(), d.sam, "hook")
	must(d.t, err)
	if out.Destination == nil {
		return client.ShowDestinationDestination{}
	}
	return *out.Destination
}

// waitForOrder waits for the end of an order and returns it.
func (d *destinationServers) waitForOrder(id string) (o client.DeliveryOrderLine) {
	d.t.Helper()
	waitUntil(d.t, "the end of the order "+id, time.Minute, func() bool {
		for _, one := range d.show().Orders {
			if one.Id == id {
				o = one
			}
		}
		return o.EndedAt != nil
	})
	return o
}

func wantInOrder(t *testing.T, what string, got []int, head int) {
	t.Helper()
	want := make([]int, head)
	for i := range want {
		want[i] = i + 1
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s arrived as %v; want 1 to %d in order", what, got, head)
	}
}

func TestDestinations_OperatorsSteerThemFromAnyServer(t *testing.T) {
	d := startDestinationServers(t)
	ctx := t.Context()
	waitUntil(t, "the report of the notifier", time.Minute, func() bool {
		return d.show().State == client.DestinationStateSending
	})
	if got := d.show(); *got.Address != d.receiver.URL || *got.Kind != client.DestinationKindWebhook {
		t.Errorf("the API shows the address %s and the kind %s; want scheme and host only", *got.Address, *got.Kind)
	}

	tested, err := client.TestDestination(ctx, d.sam, client.TestDestinationInput{Name: "hook", RequestId: "t1"})
	must(t, err)
	state, got := tested.TestDestination.Order.State, d.receiver.messages()
	if state != client.DeliveryOrderStateDone || len(got) != 1 || got[0].Type != "dev.dvt.alert.DestinationTest" {
		t.Errorf("the test ended as %s and the receiver has %+v; want it there", state, got)
	}

	_, err = client.DisableDestination(ctx, d.sam, client.SwitchDestinationInput{Name: "hook", RequestId: "off",
		Reason: "it moves"})
	must(t, err)
	time.Sleep(6 * time.Second) // a disable is in force within 5 s
	first := d.startRun("r1", 20)
	time.Sleep(4 * time.Second)
	if got := len(d.receiver.messages()); got != 1 {
		t.Fatalf("the disabled destination got %d messages; want none", got-1)
	}
	enabled, err := client.EnableDestination(ctx, d.sam, client.SwitchDestinationInput{Name: "hook", RequestId: "on",
		Reason: "it is there"})
	must(t, err)
	if enabled.EnableDestination.Change == nil || enabled.EnableDestination.Change.Actor != "sam" {
		t.Errorf("the receipt of enable is %+v; want sam", enabled.EnableDestination.Change)
	}
	waitUntil(t, "the run that waited", time.Minute, func() bool { return len(d.receiver.seqs("r1", false)) == first })
	wantInOrder(t, "the run that waited", d.receiver.seqs("r1", false), first)

	d.receiver.answer(http.StatusBadRequest, 0)
	second := d.startRun("r2", 3)
	waitUntil(t, "the dead letters", time.Minute, func() bool { return d.show().DeadLetters == second })
	dead, err := client.ListDeadDeliveries(ctx, d.sam, "hook", nil, nil)
	must(t, err)
	d.receiver.answer(http.StatusOK, 0)
	all := true
	redrive, err := client.RedriveDeliveries(ctx, d.sam, client.RedriveDeliveriesInput{Name: "hook", RequestId: "d1",
		Reason: "mended", All: &all})
	must(t, err)
	if o := d.waitForOrder(redrive.RedriveDeliveries.Order.Id); o.Sent != second || d.show().DeadLetters != 0 {
		t.Errorf("the redrive sent %d, and %d dead letters are left; want all %d sent", o.Sent, d.show().DeadLetters, second)
	}
	wantInOrder(t, "the run that was refused", d.receiver.seqs("r2", false), second)
	for _, e := range dead.DeadDeliveries.Edges {
		if !slices.ContainsFunc(d.receiver.messages(), func(m hookMessage) bool { return m.ID == e.Node.MessageId }) {
			t.Errorf("no message has the id %s of its dead letter", e.Node.MessageId)
		}
	}

	d.checkKilledReplay(map[string]int{"r1": first, "r2": second})
	d.checkStrangers()
	d.checkFileChange()
}

// checkKilledReplay kills the notifier in the middle of a replay: it is complete, and repetitions have equal ids.
func (d *destinationServers) checkKilledReplay(heads map[string]int) {
	t := d.t
	t.Helper()
	known := map[string]bool{}
	for _, m := range d.receiver.messages() {
		known[m.ID] = true
	}
	for i := range 4 {
		runID := fmt.Sprint("many", i)
		heads[runID] = d.startRun(runID, 20)
		waitUntil(t, "the run "+runID, time.Minute, func() bool {
			return len(d.receiver.seqs(runID, false)) == heads[runID]
		})
	}
	for _, m := range d.receiver.messages() {
		known[m.ID] = true
	}
	since := time.Now().Add(-time.Hour)
	preview, err := client.PreviewReplay(t.Context(), d.sam, "hook", since, nil, nil)
	must(t, err)
	total := 0
	for _, n := range heads {
		total += n
	}
	if p := preview.PreviewReplay; p.Messages != total || p.More {
		t.Errorf("the preview counts %d, more %t; want %d", p.Messages, p.More, total)
	}
	before := len(d.receiver.messages())
	d.receiver.answer(http.StatusOK, 20*time.Millisecond)
	replay, err := client.ReplayDestination(t.Context(), d.sam, client.ReplayDestinationInput{Name: "hook",
		RequestId: "r1", Reason: "lost", Since: since})
	must(t, err)
	waitUntil(t, "the middle of the replay", time.Minute, func() bool {
		return len(d.receiver.messages()) > before+total/3
	})
	d.notifier.kill()
	if o := d.show().Orders[0]; o.EndedAt != nil {
		t.Fatalf("the replay is %s at the kill; want it in the middle", o.State)
	}
	d.notifier.start()
	o := d.waitForOrder(replay.ReplayDestination.Order.Id)
	if o.Messages != total || o.Sent != total {
		t.Errorf("the replay counts %d and %d sent; want %d", o.Messages, o.Sent, total)
	}
	for runID, head := range heads {
		wantInOrder(t, "the replay of "+runID, d.receiver.seqs(runID, true), head)
	}
	for _, m := range d.receiver.messages()[before:] {
		if !known[m.ID] {
			t.Errorf("the replay sent the id %s, which no first delivery had", m.ID)
		}
	}
}

// checkStrangers asks as an administrator and SRE of a tenant that operates nothing.
func (d *destinationServers) checkStrangers() {
	t, ctx := d.t, d.t.Context()
	t.Helper()
	_, list := client.ListDestinations(ctx, d.foreign)
	_, one := client.ShowDestination(ctx, d.foreign, "hook")
	_, dead := client.ListDeadDeliveries(ctx, d.foreign, "hook", nil, nil)
	_, preview := client.PreviewReplay(ctx, d.foreign, "hook", time.Now().Add(-time.Hour), nil, nil)
	_, disable := client.DisableDestination(ctx, d.foreign, client.SwitchDestinationInput{Name: "hook",
		RequestId: uuid.NewString(), Reason: "x"})
	for name, err := range map[string]error{"the list": list, "one": one, "dead letters": dead, "a preview": preview,
		"disable": disable} {
		var refused *client.Error
		if err = client.AsAPIError(err); !errors.As(err, &refused) || refused.Code != "FORBIDDEN" {
			t.Errorf("%s for another tenant: %v, want FORBIDDEN", name, err)
		}
	}
}

// checkFileChange changes the file without a restart. SIGHUP makes the server read it at once and does not end it.
func (d *destinationServers) checkFileChange() {
	t := d.t
	t.Helper()
	doc, err := os.ReadFile(d.file)
	must(t, err)
	next := d.file + ".new"
	must(t, os.WriteFile(next, []byte(string(doc[:len(doc)-1])+", {name: second, kind: webhook, url: '"+d.receiver.URL+
		"', secrets: [{file: "+filepath.Dir(d.file)+"/key}], allowPrivate: true}]"), 0o600))
	must(t, os.Rename(next, d.file))
	must(t, d.notifier.cmd.Process.Signal(syscall.SIGHUP))
	waitUntil(t, "the destination that was added", 30*time.Second, func() bool {
		out, err := client.ListDestinations(t.Context(), d.sam)
		return err == nil && len(out.Destinations) == 2
	})
}
