package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config/configtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// The database stamps the reports of workers. A server whose own clock is an hour wrong must neither take a worker for
// dead that has just reported, nor one for alive that has not for minutes.
func TestClock_AServerGoesByTheClockOfTheStore(t *testing.T) {
	t.Parallel()
	dsn, redis := testserver.Postgres(t), testserver.Redis(t)
	must(t, postgres.Migrate(t.Context(), dsn))
	db, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	report := func(worker string) {
		must(t, db.PutWorkerReports(t.Context(), []store.WorkerReport{{Account: "w", Worker: worker, Queue: "tq-data-dev",
			Doc: json.RawMessage(`{}`)}}))
	}
	report("silent")
	c, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	_, err = c.Exec(t.Context(), `UPDATE worker_report SET at = at - interval '10 minutes'`)
	must(t, err)
	must(t, c.Close(t.Context()))
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run("an hour "+name, func(t *testing.T) {
			t.Parallel()
			at, watched := testserver.FreeAddress(t), testserver.FreeAddress(t)
			cfg, err := configtest.Load(t, false, fmt.Sprintf("listen: %s\nmetrics-listen: %s\nstore: %s\n"+
				"redis: redis://%s/0\ntemporal: %s\n"+
				"duties: [api, project]\nartifacts: file://%s?create_dir=true&no_tmp_dir=true\nticket-keys: [\"%s\"]\n"+
				"accounts:\n  - {id: sam, tenant: acme, tokenSha256: %s, "+
				"grants: [{role: SRE, project: \"*\", environment: \"*\"}]}\n",
				at, watched, dsn, redis.Addr, testserver.FreeAddress(t), filepath.Join(t.TempDir(), "artifacts"), ticketKey,
				tokenHash("sam-reads-clocks")))
			must(t, err)
			var logged lockedBuffer
			log := slog.New(slog.NewTextHandler(&logged, nil))
			runInBackground(t, func(ctx context.Context) error {
				return server.RunInside(ctx, cfg, log, func() time.Time { return time.Now().Add(ahead) },
					func(*authz.Directory, *authz.Authorizer) {})
			})
			waitUntilReady(t, "http://"+at)
			report("alive")
			a := ask(t, "http://"+at, `{workers{worker live}}`, nil, "Authorization: Bearer sam-reads-clocks")
			var compact bytes.Buffer
			must(t, json.Compact(&compact, []byte(a.body)))
			for _, want := range []string{`{"worker":"alive","live":true}`, `{"worker":"silent","live":false}`} {
				if !strings.Contains(compact.String(), want) {
					t.Errorf("the workers are %s, want %s", compact.String(), want)
				}
			}
			scrape := get(t, "http://"+watched+"/metrics").body
			_, text, _ := strings.Cut(scrape, "\ndvt_clock_skew_seconds ")
			text, _, _ = strings.Cut(text, "\n")
			if skew, err := strconv.ParseFloat(text, 64); err != nil || math.Abs(skew-ahead.Seconds()) > 5 {
				t.Errorf("the metric says that the clock is %q s ahead, want about %.0f", text, ahead.Seconds())
			}
			if n := strings.Count(logged.String(), "the clock of this machine differs from the store's"); n != 1 {
				t.Errorf("%d lines say that the clocks differ, want 1: %s", n, logged.String())
			}
		})
	}
}
