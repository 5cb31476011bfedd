package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// A scrape reads memory: while PostgreSQL does not answer and Redis is gone, every process serves the same metrics at
// once. Otherwise the monitoring of an installation fails with it.
// contract: H04
func TestMetrics_AScrapeAsksNoDatabase(t *testing.T) {
	t.Parallel()
	dsn, redis, engine := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	proxy := testserver.NewPostgresProxy(t, dsn)
	behind, err := url.Parse(dsn)
	must(t, err)
	behind.Host = proxy.Addr
	dir := t.TempDir()
	config := filepath.Join(dir, "dvt.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `
store: %s
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
artifacts: file://%s/artifacts?create_dir=true&no_tmp_dir=true
accounts:
  - {id: ada, tenant: acme, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
`, behind, redis.Addr, engine.Addr, engine.Namespace, dir, tokenHash(adaToken)), 0o600))
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	addresses := map[string]string{"server": testserver.FreeAddress(t), "control worker": testserver.FreeAddress(t)}
	spawn(t, "server", nil, "server", "--config", config, "--listen", testserver.FreeAddress(t), "--metrics-listen",
		addresses["server"])
	spawn(t, "control worker", nil, "worker", "--config", config, "--queues", "tq-control-dev", "--workspace",
		filepath.Join(dir, "control"), "--metrics-listen", addresses["control worker"])
	before := map[string][]string{}
	for kind, address := range addresses {
		waitUntil(t, kind+" serves its metrics", time.Minute, func() bool {
			res, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				return false
			}
			_ = res.Body.Close()
			before[kind] = familiesOf(get(t, "http://"+address+"/metrics").body)
			return slices.Contains(before[kind], "state_store_write_latency_ms") &&
				(kind == "server" || slices.Contains(before[kind], "worker_slots"))
		})
	}
	proxy.Hold()
	redis.Stop()
	time.Sleep(time.Second)
	for kind, address := range addresses {
		for range 3 {
			began := time.Now()
			after := familiesOf(get(t, "http://"+address+"/metrics").body)
			if took := time.Since(began); took > testtime.Of(500*time.Millisecond) {
				t.Errorf("a scrape of the %s took %s while the store did not answer, want no wait for it", kind, took)
			}
			for _, name := range before[kind] {
				if !slices.Contains(after, name) {
					t.Errorf("the %s serves no %s while the store does not answer", kind, name)
				}
			}
		}
	}
}

// familiesOf returns the names of the metrics of a page.
func familiesOf(page string) (out []string) {
	for line := range strings.Lines(page) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" {
			out = append(out, f[2])
		}
	}
	return out
}
