package connect_test

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/server/config/configtest"
	"github.com/dvt-engine/dvt/server/connect"
)

// A worker serves each of its queues in the namespaces where tasks of the queue may wait, and no other queue there.
func TestWorkers_ServeAQueueInTheNamespacesOfItsEnvironment(t *testing.T) {
	t.Parallel()
	const settings = `
temporal: 127.0.0.1:1
temporal-namespaces:
  environments: {production: prod, staging: staging}
  tiers: {hospital: HIPAA}
  regulated: {production: prod-hipaa}
  former: [old]
`
	queues := []string{"tq-data-production", "tq-data-staging"}
	for _, c := range []struct {
		file string
		want map[string][]string
	}{
		{settings, map[string][]string{"prod": queues[:1], "prod-hipaa": queues[:1], "staging": queues[1:], "old": queues}},
		{"temporal: 127.0.0.1:1", map[string][]string{"dvt": queues}},
	} {
		cfg := configtest.MustLoad(t, false, c.file)
		clients, err := connect.Clients(&cfg, temporal.Connection{HostPort: cfg.Temporal}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(clients.Close)
		first, w := clients.Workers(&cfg, temporal.WorkerConfig{Data: queues, DataConcurrency: 3})
		got := map[string][]string{w.Namespace: w.Data}
		for _, s := range w.Elsewhere {
			if got[s.Namespace] = s.Data; s.Client != clients[s.Namespace] {
				t.Errorf("the queues of %s get the client of another namespace", s.Namespace)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("queues by namespace (-want +got):\n%s", d)
		}
		if first != clients[w.Namespace] || w.DataConcurrency != 3 || len(w.Control) > 0 {
			t.Errorf("the first namespace %s has another client, or its settings are lost: %+v", w.Namespace, w)
		}
	}
}
