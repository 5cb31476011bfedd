package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/config/configtest"
)

// workerLimits returns the limits of the workers of a process.
func workerLimits(t *testing.T, c config.Config) temporal.Limits {
	t.Helper()
	limits, err := c.Limits()
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

func TestLoad_ReadsSlotsAndRatesOfWorkers(t *testing.T) {
	c := configtest.MustLoad(t, false, "")
	none := temporal.Limits{
		Slots: map[plan.Workload]int{}, Rates: map[plan.Workload]float64{}, QueueRates: map[plan.Workload]float64{},
		TenantShares: map[string]int{},
	}
	limits := workerLimits(t, c)
	if diff := cmp.Diff(none, limits); diff != "" || c.Concurrency != 4 {
		t.Errorf("without settings the concurrency is %d, want 4, and the limits are (-want +got):\n%s", c.Concurrency, diff)
	}
	t.Setenv("DVT_SLOTS_BY_TENANT", "*=50%, acme=75%")
	t.Setenv("DVT_RATE_BY_TYPE", "HTTP_NOTIFY=0.5")
	c = configtest.MustLoad(t, false, `
concurrency: 6
slots-by-type: [HTTP_NOTIFY=20, DBT=2, NOOP=1000]
queue-rate-by-type: [COMMAND=0.1, DBT=2.5]
metrics-listen: 127.0.0.1:9464
`)
	want := temporal.Limits{
		Slots:       map[plan.Workload]int{plan.HTTPWorkload: 20, plan.DBTWorkload: 2, plan.NoopWorkload: 1000},
		Rates:       map[plan.Workload]float64{plan.HTTPWorkload: 0.5},
		QueueRates:  map[plan.Workload]float64{plan.CommandWorkload: 0.1, plan.DBTWorkload: 2.5},
		TenantShare: 50, TenantShares: map[string]int{"acme": 75},
	}
	limits = workerLimits(t, c)
	if diff := cmp.Diff(want, limits); diff != "" || c.Concurrency != 6 {
		t.Errorf("the concurrency is %d, want 6, and the limits are (-want +got):\n%s", c.Concurrency, diff)
	}
}

func TestLoad_NamesEverythingWrongWithSlotsAndRates(t *testing.T) {
	_, err := configtest.Load(t, false, `
concurrency: 0
slots-by-type: [DBT_RUN=4, HTTP_NOTIFY, COMMAND=0, NOOP=1001, DBT=2.5, HTTP_NOTIFY=1, HTTP_NOTIFY=2]
rate-by-type: [SLEEP=1, COMMAND=0.4, DBT=fast, NOOP=NaN]
queue-rate-by-type: [COMMAND=0.05, DBT=10001]
slots-by-tenant: ["*=0%", "*=101%", acme=5, "a b=5%", "globex=10%", "globex=20%", initech]
metrics-listen: 0.0.0.0:9464
`)
	if err == nil {
		t.Fatal("invalid settings were accepted")
	}
	for _, want := range []string{
		"concurrency must be between 1 and 1000",
		`slots-by-type: "DBT_RUN" is not one of NOOP, COMMAND, DBT and HTTP_NOTIFY, where DBT covers DBT_COMPILE, DBT_RUN`,
		`slots-by-type: "HTTP_NOTIFY" must look like HTTP_NOTIFY=20`,
		`slots-by-type: COMMAND must be between 1 and 1000, not "0"`,
		`slots-by-type: NOOP must be between 1 and 1000, not "1001"`,
		"slots-by-type: DBT needs a whole number",
		"slots-by-type: HTTP_NOTIFY is given twice",
		`rate-by-type: "SLEEP" is not one of`,
		`rate-by-type: COMMAND must be between 0.5 and 10000, not "0.4"`,
		`rate-by-type: DBT must be between 0.5 and 10000, not "fast"`,
		`rate-by-type: NOOP must be between 0.5 and 10000, not "NaN"`,
		`queue-rate-by-type: COMMAND must be between 0.1 and 10000, not "0.05"`,
		`queue-rate-by-type: DBT must be between 0.1 and 10000, not "10001"`,
		`slots-by-tenant: the share of * must be from 1% to 100%, not "*=0%"`,
		`slots-by-tenant: the share of * must be from 1% to 100%, not "*=101%"`,
		`slots-by-tenant: the share of acme must be from 1% to 100%, not "acme=5"`,
		`slots-by-tenant: "a b=5%" must look like acme=50%`,
		"slots-by-tenant: globex is given twice",
		`slots-by-tenant: the share of initech must be from 1% to 100%, not "initech"`,
		"metrics-listen: 0.0.0.0:9464 is not on this machine's loopback",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s: %v", want, err)
		}
	}
}

func TestLoad_RefusesDataQueuesThatEndLikeTheTaskQueueOfAWorkload(t *testing.T) {
	t.Setenv("DVT_QUEUES", "tq-data-dev:dbt,tq-data-dev:http,tq-data-prod")
	_, err := configtest.Load(t, false, `
concurrency: 0
data-queue: tq-shop:dbt
isolation-queue: "tq-alone-{tenant}:http"
isolation-tenants: [acme]
known-queues: ["tq-gpu-{env}:dbt"]
`)
	if err == nil {
		t.Fatal("names of data queues that end in :dbt and :http were accepted")
	}
	for _, want := range []string{
		"queues: tq-data-dev:dbt must not end in :dbt, which dvt adds to the name of a data queue in Temporal for its " +
			"DBT steps; " +
			"name the queue tq-data-dev, whose workers serve these steps too",
		"queues: tq-data-dev:http must not end in :http",
		"data-queue: tq-shop:dbt must not end in :dbt",
		"isolation-queue: tq-alone-{tenant}:http must not end in :http",
		"known-queues: tq-gpu-{env}:dbt must not end in :dbt",
		"concurrency must be between 1 and 1000",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "tq-data-prod must not") {
		t.Errorf("the error names a queue that is right: %v", err)
	}
}

func TestLoad_AcceptsQueuesThatEndLikeNoTaskQueueOfTheirOwn(t *testing.T) {
	for _, queues := range []string{"tq-data-dev", "tq-data-dbt,tq-data-http", "tq-isolation-acme:prod",
		"tq-control-dev:dbt"} {
		t.Setenv("DVT_QUEUES", queues)
		if _, err := configtest.Load(t, false, ""); err != nil {
			t.Errorf("queues %s: %v, want no error", queues, err)
		}
	}
}
