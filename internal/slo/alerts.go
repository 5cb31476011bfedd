package slo

// Severities of alerts, with the priority of the contract that each stands for.
const (
	Critical = "critical" // P1: wake somebody
	Warning  = "warning"  // P2: look at it today
	Info     = "info"     // P3
)

// Runbooks, by the names of their pages in docs/runbooks.
const (
	Outage           = "sev-1-outage"
	Partial          = "sev-2-partial"
	Performance      = "sev-3-performance"
	Escape           = "sev-0-escape"
	OutboxBacklog    = "outbox-backlog"
	PluginQuarantine = "plugin-quarantine"
	Rollback         = "rollback"
	SecretLeak       = "secret-leak"
	DataCorruption   = "data-corruption"
	StuckRun         = "stuck-run"
	TenantIsolation  = "tenant-isolation"
)

// Runbooks returns the names of all runbooks.
func Runbooks() []string {
	return []string{Escape, Outage, Partial, Performance, OutboxBacklog, PluginQuarantine, Rollback, SecretLeak,
		DataCorruption, StuckRun, TenantIsolation}
}

// Alert is an alerting rule. Fires and Silent are input series for its unit tests. After half an hour of Fires the
// alert fires with the labels FiresAs; after half an hour of Silent it does not.
type Alert struct {
	Name, Expr, For, Severity string
	Summary                   string // what happened and what to do first
	Playbook                  string // page in docs/runbooks, without .md
	Section                   string // anchor in docs/operations.md
	Fires, Silent             []Series
	FiresAs                   map[string]string
}

// Series is an input series in the notation of promtool: its values are 15 s apart.
type Series struct{ Series, Values string }

// steady is a series with one value.
func steady(series, value string) []Series { return []Series{{series, value + "x240"}} }

// grows is a counter that grows by a number every 15 s.
func grows(series, by string) []Series { return []Series{{series, "0+" + by + "x240"}} }

func as(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// slowHistogram is a histogram whose observations are all above a bound, and another one where all are below it.
func slowHistogram(name, bound string) (slow, fast []Series) {
	count := Series{name + "_count", "0+10x240"}
	bucket := func(le, by string) Series { return Series{name + `_bucket{le="` + le + `"}`, "0+" + by + "x240"} }
	return []Series{bucket(bound, "0"), bucket("60", "10"), bucket("+Inf", "10"), count},
		[]Series{bucket(bound, "10"), bucket("60", "10"), bucket("+Inf", "10"), count}
}

// burnSeries are recorded ratios of an SLO with a budget of 0.001.
func burnSeries(ratio string, over ...string) (out []Series) {
	for _, w := range over {
		out = append(out, steady(`slo:sli_error:ratio_rate`+w+`{slo="engine-errors"}`, ratio)...)
	}
	return out
}

// Alerts returns all alerting rules.
func Alerts() []Alert {
	slowQueue, fastQueue := slowHistogram("engine_queue_wait_seconds", "30")
	skewed, inTime := slowHistogram("engine_event_clock_skew_seconds", "5")
	errors := func(bad string) []Series {
		return append(grows(`engine_errors_total{category="SYSTEM"}`, bad),
			grows(`engine_steps_executed_total{type="COMMAND",status="SUCCESS"}`, "100")...)
	}
	return []Alert{
		// The seed's formula compares a rate of errors with a share of the budget; these compare shares.
		{Name: "SLOBudgetBurn10x", Expr: `slo:sli_error:ratio_rate5m{slo="engine-errors"} > 10 * 0.001`, For: "5m",
			Severity: Warning,
			Summary: "Steps fail through dvt or its workers ten times more often than the error budget of a month allows. " +
				"Look at engine_errors_total by category.",
			Playbook: Performance, Section: "objectives-and-alerts", Fires: errors("5"), Silent: errors("0"),
			FiresAs: as("slo", "engine-errors")},
		{Name: "SLOBudgetBurn100x", Expr: `slo:sli_error:ratio_rate1m{slo="engine-errors"} > 100 * 0.001`, For: "1m",
			Severity: Critical,
			Summary: "At least one in ten steps fails through dvt or its workers. Check the store, Temporal and the " +
				"workers on the page Health.",
			Playbook: Outage, Section: "objectives-and-alerts", Fires: errors("50"), Silent: errors("5"),
			FiresAs: as("slo", "engine-errors")},
		{Name: "SLOBudgetBurnFast", Expr: burn(14.4, "5m", "1h") + " or " + burn(6, "30m", "6h"), Severity: Critical,
			Summary:  "An objective uses up its error budget of a month within days. The label slo names it.",
			Playbook: Partial, Section: "objectives-and-alerts", Fires: burnSeries("0.02", "5m", "1h"),
			Silent:  burnSeries("0.02", "5m", "30m"),
			FiresAs: as("slo", "engine-errors")},
		{Name: "SLOBudgetBurnSlow", Expr: burn(3, "2h", "1d") + " or " + burn(1, "6h", "3d"), Severity: Warning,
			Summary:  "An objective uses up its error budget faster than it may. The label slo names it.",
			Playbook: Performance, Section: "objectives-and-alerts", Fires: burnSeries("0.002", "6h", "3d"),
			Silent:  burnSeries("0.002", "2h", "1d"),
			FiresAs: as("slo", "engine-errors")},
		{Name: "ProcessDown", Expr: `up{job=~"dvt-.*"} == 0`, For: "1m", Severity: Critical,
			Summary:  "A process of dvt does not answer its scrape. Start it again; its work continues elsewhere meanwhile.",
			Playbook: Partial, Section: "what-a-kill--9-does",
			Fires: steady(`up{job="dvt-server",instance="a"}`, "0"), Silent: steady(`up{job="dvt-server",instance="a"}`, "1"),
			FiresAs: as("job", "dvt-server", "instance", "a")},
		{Name: "TenantQuotaExceeded", Expr: "max by (tenant, action) (engine_tenant_quota_used) > 90", For: "5m",
			Severity: Warning,
			Summary:  "A tenant uses more than 90 % of a quota. Tell the tenant, or raise its quota.",
			Playbook: Performance, Section: "quotas-and-the-queue",
			Fires:   steady(`engine_tenant_quota_used{tenant="acme",action="START_RUN"}`, "95"),
			Silent:  steady(`engine_tenant_quota_used{tenant="acme",action="START_RUN"}`, "90"),
			FiresAs: as("tenant", "acme", "action", "START_RUN")},
		{Name: "QueueBackup", Expr: "max by (tenant) (engine_tenant_queue_depth) > 50", For: "2m", Severity: Critical,
			Summary:  "More than 50 runs of a tenant wait. Look at its quota and at the page of the queue.",
			Playbook: Performance, Section: "quotas-and-the-queue",
			Fires:   steady(`engine_tenant_queue_depth{tenant="acme",action="START_RUN"}`, "51"),
			Silent:  steady(`engine_tenant_queue_depth{tenant="acme",action="START_RUN"}`, "50"),
			FiresAs: as("tenant", "acme")},
		{Name: "QueueSlow",
			Expr: "histogram_quantile(0.95, sum by (le) (rate(engine_queue_wait_seconds_bucket[10m]))) > 30", For: "10m",
			Severity: Warning,
			Summary:  "One in twenty runs that wait is admitted after more than 30 s. Look at quotas and at maxActive.",
			Playbook: Performance, Section: "quotas-and-the-queue",
			Fires: slowQueue, Silent: fastQueue},
		{Name: "QueueTTLExceeded", Expr: "sum by (tenant) (increase(engine_queue_ttl_exceeded_total[10m])) > 0",
			Severity: Warning,
			Summary:  "Runs of a tenant failed because they waited too long. Raise the quota or the ttl, or start fewer runs.",
			Playbook: Performance, Section: "quotas-and-the-queue",
			Fires:   grows(`engine_queue_ttl_exceeded_total{tenant="acme"}`, "1"),
			Silent:  steady(`engine_queue_ttl_exceeded_total{tenant="acme"}`, "3"),
			FiresAs: as("tenant", "acme")},
		{Name: "RunQueueGrowing", Expr: "max(run_queue_pending) > 10", For: "5m", Severity: Critical,
			Summary:  "Admitted runs are not started. Check that a server has the duty dispatch and that Temporal answers.",
			Playbook: Outage, Section: "stalled-runs",
			Fires: steady("run_queue_pending", "11"), Silent: steady("run_queue_pending", "10")},
		{Name: "StartsTakenOver", Expr: "sum(increase(run_queue_leases_expired_total[10m])) > 0", Severity: Warning,
			Summary:  "A server took starts over that another one had leased. Look whether a server died or hangs.",
			Playbook: Partial, Section: "quotas-and-the-queue",
			Fires: grows("run_queue_leases_expired_total", "1"), Silent: steady("run_queue_leases_expired_total", "7")},
		{Name: "EngineStartsRefused", Expr: "max(engine_start_breaker_open) == 1", For: "1m", Severity: Critical,
			Summary:  "New runs are refused because Temporal does not start runs in time. Check Temporal.",
			Playbook: Outage, Section: "health-and-metrics",
			Fires: steady("engine_start_breaker_open", "1"), Silent: steady("engine_start_breaker_open", "0")},
		{Name: "DependencyDown", Expr: `min by (check) (dvt_dependency_up{check!="eventBus"}) == 0`, For: "1m",
			Severity: Critical,
			Summary: "A part that dvt needs does not work. The label check names it: stateStore is PostgreSQL, " +
				"artifactStore the bucket of logs and artifacts.", Playbook: Outage, Section: "health-and-metrics",
			Fires:   steady(`dvt_dependency_up{check="stateStore"}`, "0"),
			Silent:  steady(`dvt_dependency_up{check="eventBus"}`, "0"), // BusDown says that
			FiresAs: as("check", "stateStore")},
		{Name: "EngineQueueBacklog", Expr: "max by (task_queue) (engine_queue_backlog) > 100", For: "10m",
			Severity: Warning,
			Summary:  "More than 100 tasks wait in a queue of the engine. Start more workers for the queue.",
			Playbook: Performance, Section: "slots-and-rates",
			Fires:   steady(`engine_queue_backlog{adapter="temporal",task_queue="tq-data-prod"}`, "101"),
			Silent:  steady(`engine_queue_backlog{adapter="temporal",task_queue="tq-data-prod"}`, "100"),
			FiresAs: as("task_queue", "tq-data-prod")},
		{Name: "NoWorkerForQueue", Expr: `sum(dvt_sweep_open{kind="no_worker"}) > 0`, Severity: Critical,
			Summary: "Runs wait for a queue that no worker serves. The alerts of the runs name the queue; start a worker " +
				"for it.", Playbook: StuckRun, Section: "stalled-runs",
			Fires: steady(`dvt_sweep_open{kind="no_worker"}`, "1"), Silent: steady(`dvt_sweep_open{kind="no_worker"}`, "0")},
		{Name: "PAUSE_DRAIN_TIMEOUT", Expr: `sum(dvt_sweep_open{kind="pause_drains"}) > 0`, Severity: Warning,
			Summary: "A paused run still executes an attempt after pause-drain-timeout. Look at the step and its worker; " +
				"resume or cancel the run.", Playbook: StuckRun, Section: "stalled-runs",
			Fires:  steady(`dvt_sweep_open{kind="pause_drains"}`, "1"),
			Silent: steady(`dvt_sweep_open{kind="step_stuck"}`, "1")},
		{Name: "AttemptHung", Expr: `sum(dvt_sweep_open{kind="attempt_hung"}) > 0`, For: "5m", Severity: Critical,
			Summary: "The worker of an attempt does not answer, and the attempt was not recovered within 5 minutes. Check " +
				"the worker, then retry the step or cancel the run.", Playbook: StuckRun, Section: "recovery",
			Fires:  steady(`dvt_sweep_open{kind="attempt_hung"}`, "1"),
			Silent: steady(`dvt_sweep_open{kind="attempt_hung"}`, "0")},
		{Name: "LogRegressed", Expr: `sum(dvt_sweep_open{kind="log_regressed"}) > 0`, Severity: Critical,
			Summary: "Temporal knows more of a run than its log has: the store came back from an older state. Stop all " +
				"servers, then repair the store.", Playbook: DataCorruption, Section: "after-a-restore",
			Fires:  steady(`dvt_sweep_open{kind="log_regressed"}`, "1"),
			Silent: steady(`dvt_sweep_open{kind="log_regressed"}`, "0")},
		{Name: "WorkflowHistoryLarge", Expr: "max by (namespace) (workflow_history_size_bytes) > 2e6 or " +
			"max by (namespace) (min_over_time(workflow_history_size_bytes[5m])) > 1e6", For: "1m", Severity: Critical,
			Summary: "An execution has not rotated although its history is larger than 1 MB. Look for steps that run " +
				"long, and for workers that do not answer.", Playbook: StuckRun, Section: "long-runs",
			Fires:   steady(`workflow_history_size_bytes{namespace="dvt"}`, "1100000"),
			Silent:  []Series{{`workflow_history_size_bytes{namespace="dvt"}`, "900000x117 1100000x60"}},
			FiresAs: as("namespace", "dvt")},
		{Name: "WorkflowStepsSinceContinue", Expr: "max by (namespace) (workflow_steps_since_continue) > 2 * 50", For: "5m",
			Severity: Warning,
			Summary: "An execution has scheduled more than 100 steps without rotating. A plan with many long parallel " +
				"steps may need a larger rotate-after.", Playbook: Performance, Section: "long-runs",
			Fires:   steady(`workflow_steps_since_continue{namespace="dvt"}`, "101"),
			Silent:  steady(`workflow_steps_since_continue{namespace="dvt"}`, "100"),
			FiresAs: as("namespace", "dvt")},
		{Name: "SignalRateHigh", Expr: "max by (tenant) (signal_rate_per_run) >= 60", For: "1m", Severity: Critical,
			Summary:  "One run of a tenant gets as many signals as the limit allows. Look for a script that repeats them.",
			Playbook: Performance, Section: "limits-of-one-caller",
			Fires:  steady(`signal_rate_per_run{tenant="acme"}`, "60"),
			Silent: steady(`signal_rate_per_run{tenant="acme"}`, "59"), FiresAs: as("tenant", "acme")},
		{Name: "StateStoreWriteTimeouts", Expr: "sum(increase(state_store_write_timeouts_total[1m])) > 10",
			Severity: Critical,
			Summary:  "More than ten writes within a minute took longer than write-budget. Check the database.",
			Playbook: Partial, Section: "a-slow-store",
			Fires: []Series{{"state_store_write_timeouts_total", "0+20x240"},
				{`state_store_write_timeouts_total{instance="b"}`, "0+20x240"}},
			Silent: grows("state_store_write_timeouts_total", "2")},
		{Name: "StateStoreEventsBuffered",
			Expr: "sum(state_store_buffered_events) / (sum(state_store_queue_depth) > 0) > 0.1", For: "2m", Severity: Warning,
			Summary: "More than one in ten events that wait for the store has waited for longer than write-budget. Check " +
				"the database.", Playbook: Performance, Section: "a-slow-store",
			Fires:  append(steady("state_store_buffered_events", "2"), steady("state_store_queue_depth", "10")...),
			Silent: append(steady("state_store_buffered_events", "1"), steady("state_store_queue_depth", "10")...)},
		{Name: "ClockSkew",
			Expr: "histogram_quantile(0.95, sum by (le) (rate(engine_event_clock_skew_seconds_bucket[5m]))) > 5", For: "5m",
			Severity: Warning,
			Summary: "The clocks of a worker or server and of the store differ by more than 5 s. Check time " +
				"synchronisation on all machines.", Playbook: Performance, Section: "a-slow-store",
			Fires: skewed, Silent: inTime},
		{Name: "ProcessClockSkew", Expr: "max by (instance) (abs(dvt_clock_skew_seconds)) > 5", For: "1m",
			Severity: Warning,
			Summary: "The clock of the process {{ $labels.instance }} and that of the store differ by more than 5 s. dvt " +
				"uses the store's, but receivers refuse signatures and servers refuse tokens: check time synchronisation.",
			Playbook: Performance, Section: "a-slow-store",
			Fires:   []Series{{`dvt_clock_skew_seconds{instance="a"}`, "-3600+0x240"}},
			Silent:  []Series{{`dvt_clock_skew_seconds{instance="a"}`, "-2+0x240"}},
			FiresAs: as("instance", "a")},
		{Name: "PROJECTOR_LAG_HIGH", Expr: "max(projector_lag_seconds) > 5", For: "1m", Severity: Warning,
			Summary:  "Views are more than 5 s behind the log. Check the load of the servers, the store and Redis.",
			Playbook: OutboxBacklog, Section: "messages-and-views",
			Fires: steady("projector_lag_seconds", "6"), Silent: steady("projector_lag_seconds", "5")},
		{Name: "TraceExportDelayed", Expr: "max(dvt_trace_lag_seconds) > 300", For: "5m", Severity: Info,
			Summary:  "Spans of runs have waited for more than 5 minutes. Check the receiver of traces; runs are not affected.",
			Playbook: Performance, Section: "traces",
			Fires: steady("dvt_trace_lag_seconds", "400"), Silent: steady("dvt_trace_lag_seconds", "200")},
		{Name: "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED",
			Expr:     `sum(increase(projector_alerts_total{alert="PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"}[10m])) > 0`,
			Severity: Warning,
			Summary: "A projector read events with a hole between them, or a stream missed a message and read its run again. " +
				"Check Redis; if it is well and no log was imported, verify the store.", Playbook: DataCorruption, Section: "messages-and-views",
			Fires:  grows(`projector_alerts_total{alert="PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"}`, "1"),
			Silent: grows(`projector_alerts_total{alert="PROJECTOR_LAG_HIGH"}`, "1")},
		{Name: "PROJECTOR_CAUSAL_VIOLATION",
			Expr:     `sum(increase(projector_alerts_total{alert="PROJECTOR_CAUSAL_VIOLATION"}[10m])) > 0`,
			Severity: Info,
			Summary:  "A log has an event before its cause, which the view tolerates. Report it if it continues.",
			Playbook: DataCorruption, Section: "messages-and-views",
			Fires:  grows(`projector_alerts_total{alert="PROJECTOR_CAUSAL_VIOLATION"}`, "1"),
			Silent: steady(`projector_alerts_total{alert="PROJECTOR_CAUSAL_VIOLATION"}`, "4")},
		{Name: "EVENT_BUS_DELIVERY_FAILED",
			Expr:     `sum(increase(projector_alerts_total{alert="EVENT_BUS_DELIVERY_FAILED"}[10m])) > 0`,
			Severity: Critical,
			Summary: "Redis refused a message ten times, and it is a dead letter. Find the cause in its list, then send " +
				"it again.", Playbook: OutboxBacklog, Section: "messages-and-views",
			Fires:  grows(`projector_alerts_total{alert="EVENT_BUS_DELIVERY_FAILED"}`, "1"),
			Silent: steady(`projector_alerts_total{alert="EVENT_BUS_DELIVERY_FAILED"}`, "1")},
		{Name: "ProjectorAbsent", Expr: "max(projector_overdue_runs) > 0 and on () (min(dvt_bus_up) == 1)", For: "1m",
			Severity: Critical,
			Summary: "No projector publishes changes although Redis answers. Check that a server has the duty project, " +
				"and restart it.", Playbook: OutboxBacklog, Section: "messages-and-views",
			Fires:  append(steady("projector_overdue_runs", "3"), steady("dvt_bus_up", "1")...),
			Silent: append(steady("projector_overdue_runs", "3"), steady("dvt_bus_up", "0")...)},
		{Name: "BusDown", Expr: "min(dvt_bus_up) == 0", For: "1m", Severity: Critical,
			Summary: "A server does not reach Redis. Views come by polling until it is back.", Playbook: OutboxBacklog, Section: "messages-and-views",
			Fires: steady("dvt_bus_up", "0"), Silent: steady("dvt_bus_up", "1")},
		{Name: "DestinationBehind", Expr: "max by (destination) (dvt_destination_oldest_waiting_seconds) > 600", For: "5m",
			Severity: Warning,
			Summary: "Messages have waited for a destination for more than 10 minutes. Nothing is lost; look why it does not " +
				"accept them, and test it.", Playbook: OutboxBacklog, Section: "destinations",
			Fires:   steady(`dvt_destination_oldest_waiting_seconds{destination="hook"}`, "700"),
			Silent:  steady(`dvt_destination_oldest_waiting_seconds{destination="hook"}`, "600"),
			FiresAs: as("destination", "hook")},
		{Name: "DestinationFails", Expr: "sum by (destination) (rate(dvt_destination_failures_total[15m])) > 0 and on " +
			"(destination) sum by (destination) (increase(dvt_destination_sent_total[15m])) == 0", For: "10m",
			Severity: Warning,
			Summary:  "A destination has accepted nothing for more than 10 minutes although messages were tried. Test it.",
			Playbook: OutboxBacklog, Section: "destinations",
			Fires: append(grows(`dvt_destination_failures_total{destination="hook"}`, "1"),
				steady(`dvt_destination_sent_total{destination="hook"}`, "7")...),
			Silent: append(grows(`dvt_destination_failures_total{destination="hook"}`, "1"),
				grows(`dvt_destination_sent_total{destination="hook"}`, "1")...),
			FiresAs: as("destination", "hook")},
		{Name: "DestinationDeadLetters",
			Expr:     "sum by (destination) (increase(dvt_destination_dead_letters_total[15m])) > 0",
			Severity: Warning,
			Summary: "A destination refused messages, which are dead letters now. Find the cause in their list, then send " +
				"them again.", Playbook: OutboxBacklog, Section: "destinations",
			Fires:   grows(`dvt_destination_dead_letters_total{destination="hook"}`, "1"),
			Silent:  steady(`dvt_destination_dead_letters_total{destination="hook"}`, "3"),
			FiresAs: as("destination", "hook")},
		{Name: "ContainedPanic", Expr: "sum by (duty) (increase(dvt_panics_total[10m])) > 0", Severity: Warning,
			Summary: "A fault of dvt was contained. Report the stack that the log has.", Playbook: Rollback, Section: "panics",
			Fires: grows(`dvt_panics_total{duty="dispatch"}`, "1"), Silent: steady(`dvt_panics_total{duty="dispatch"}`, "2"),
			FiresAs: as("duty", "dispatch")},
		{Name: "AuditUnlinked", Expr: "max(dvt_audit_unlinked_seconds) > 10", For: "1m", Severity: Critical,
			Summary:  "Rows of the audit are in no chain. Read the line 'audit rows were not linked' in the log.",
			Playbook: DataCorruption, Section: "problems-of-the-audit",
			Fires: steady("dvt_audit_unlinked_seconds", "11"), Silent: steady("dvt_audit_unlinked_seconds", "9")},
		{Name: "AuditHeadsNotWritten", Expr: "time() - max(dvt_audit_heads_written_timestamp_seconds) > 3 * 300",
			Severity: Critical,
			Summary:  "Signed heads of the audit are not written. Check the bucket and its rights.", Playbook: DataCorruption, Section: "signed-heads",
			Fires:  steady("dvt_audit_heads_written_timestamp_seconds", "0"),
			Silent: grows("dvt_audit_heads_written_timestamp_seconds", "60")},
		{Name: "TemporalDrift", Expr: `max by (namespace, kind) (dvt_temporal_drift{kind!="unknown"}) > 0`, For: "15m",
			Severity: Warning,
			Summary: "A namespace of Temporal differs from the settings: runs cannot be found, or histories are kept for another " +
				"time. Run dvt temporal status, then dvt temporal setup.", Playbook: Partial, Section: "namespaces",
			Fires:   steady(`dvt_temporal_drift{namespace="prod",kind="retention"}`, "1"),
			Silent:  steady(`dvt_temporal_drift{namespace="prod",kind="unknown"}`, "1"),
			FiresAs: as("namespace", "prod", "kind", "retention")},
		{Name: "RetentionOverdue", Expr: "max(dvt_retention_overdue_seconds) > 24 * 3600", Severity: Warning,
			Summary: "Runs, logs or artifacts are kept for a day longer than a policy says. Read the alerts RETENTION_FAILING " +
				"and RETENTION_OVERDUE, and check that servers may write and delete in the bucket.",
			Playbook: Partial, Section: "retention",
			Fires: steady("dvt_retention_overdue_seconds", "90000"), Silent: steady("dvt_retention_overdue_seconds", "80000")},
		{Name: "ErasureDelayed", Expr: "max(dvt_erasure_oldest_seconds) > 20 * 86400", For: "5m", Severity: Warning,
			Summary: "A request to erase a tenant or a person is older than 20 days, and has to end within 30. The alert " +
				"ERASURE_DELAYED says what it waits for.", Playbook: Partial, Section: "erasure",
			Fires: steady("dvt_erasure_oldest_seconds", "1728001"), Silent: steady("dvt_erasure_oldest_seconds", "1728000")},
		{Name: "ErasureStandsStill",
			Expr: `sum(dvt_erasures_open{phase!~"ASKED|EXPIRED|CONFIRMED|HELD"}) > 0 and on () ` +
				`max(delta(dvt_erasure_erased[20m])) == 0`, For: "5m", Severity: Warning,
			Summary: "An erasure has begun, and erases nothing any more. Run dvt store erase again: it continues where it " +
				"was.", Playbook: Partial, Section: "erasure",
			Fires:  append(steady(`dvt_erasures_open{phase="ROWS"}`, "1"), steady("dvt_erasure_erased", "500")...),
			Silent: append(steady(`dvt_erasures_open{phase="ROWS"}`, "1"), grows("dvt_erasure_erased", "100")...)},
		{Name: "CredentialGuessing", Expr: `sum(rate(dvt_auth_failures_total{kind=~"token|session"}[5m])) > 1`,
			Severity: Warning,
			Summary: "More than one request a second has a wrong token or session. Check the addresses in the log of your " +
				"proxy.", Playbook: SecretLeak, Section: "the-audit",
			Fires:  grows(`dvt_auth_failures_total{kind="token"}`, "120"),
			Silent: grows(`dvt_auth_failures_total{kind="missing"}`, "120")},
		{Name: "WorkerTokenRefused", Expr: `sum(increase(dvt_auth_failures_total{kind="worker"}[10m])) > 0`,
			Severity: Warning,
			Summary: "A worker calls the Journal with a token that no account has. It begins no step. Compare its setting " +
				"worker-token with the accounts of the servers.", Playbook: StuckRun, Section: "processes",
			Fires:  grows(`dvt_auth_failures_total{kind="worker"}`, "1"),
			Silent: steady(`dvt_auth_failures_total{kind="worker"}`, "7")},
		{Name: "DeniedActions", Expr: "sum by (action) (rate(dvt_denials_total[15m])) > 0.2", Severity: Warning,
			Summary: "Somebody requests actions that their role does not allow. List them with dvt audit export --outcome " +
				"DENIED.", Playbook: TenantIsolation, Section: "the-audit",
			Fires: grows(`dvt_denials_total{action="READ"}`, "20"), Silent: grows(`dvt_denials_total{action="READ"}`, "2"),
			FiresAs: as("action", "READ")},
		{Name: "IsolationViolation", Expr: "sum by (worker, tenant) (increase(worker_isolation_violations_total[10m])) > 0",
			Severity: Warning,
			Summary:  "A step of a tenant tried what its sandbox refuses. Read the worker's log.",
			Playbook: Escape, Section: "the-sandbox-of-steps",
			Fires:   grows(`worker_isolation_violations_total{worker="w1",tenant="acme"}`, "1"),
			Silent:  steady(`worker_isolation_violations_total{worker="w1",tenant="acme"}`, "1"),
			FiresAs: as("worker", "w1", "tenant", "acme")},
		{Name: "WorkerMemoryPressure", Expr: "max by (worker) (worker_memory_pressure_ratio) > 0.9", For: "5m",
			Severity: Warning,
			Summary:  "A worker and its steps use more than 90 % of their memory. Lower its slots, or give it more.",
			Playbook: Performance, Section: "slots-and-rates",
			Fires:   steady(`worker_memory_pressure_ratio{worker="w1"}`, "0.95"),
			Silent:  steady(`worker_memory_pressure_ratio{worker="w1"}`, "0.9"),
			FiresAs: as("worker", "w1")},
	}
}
