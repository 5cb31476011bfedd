package slo

// Dashboard is a Grafana dashboard.
type Dashboard struct {
	File, Title string
	Panels      []Panel
	// ByTenant dashboards have the variable tenant.
	ByTenant bool
}

// Panel is one graph.
type Panel struct {
	Title, Unit string
	Queries     []Query
}

// Query is one PromQL query and the legend of its series. $tenant stands for the chosen tenants.
type Query struct{ Expr, Legend string }

func q(expr, legend string) Query { return Query{expr, legend} }

// p95 returns the 95th percentile of a histogram, by a label or in total.
func p95(histogram, by string) string {
	labels := "le"
	if by != "" {
		labels += ", " + by
	}
	return "histogram_quantile(0.95, sum by (" + labels + ") (rate(" + histogram + "_bucket[5m])))"
}

func panel(title, unit string, queries ...Query) Panel { return Panel{title, unit, queries} }

// Dashboards returns all dashboards.
func Dashboards() []Dashboard {
	return []Dashboard{
		{File: "engine.json", Title: "dvt: engine overview", Panels: []Panel{
			panel("Share of the error budget that is used, 1 h", "percentunit",
				q("slo:sli_error:ratio_rate1h / on (slo) group_left () slo:error_budget:ratio", "{{slo}}")),
			panel("Attempts of steps", "ops",
				q("sum by (type, status) (rate(engine_steps_executed_total[5m]))", "{{type}} {{status}}")),
			panel("Errors by category", "ops", q("sum by (category) (rate(engine_errors_total[5m]))", "{{category}}")),
			panel("Duration of runs, P95", "s", q(p95("engine_run_duration_seconds", ""), "P95")),
			panel("Signals: acceptance to answer, P95", "s", q(p95("engine_signal_latency_seconds", ""), "P95")),
			panel("Queue: wait, P95", "s", q(p95("engine_queue_wait_seconds", ""), "P95")),
			panel("Queue: due starts", "short", q("max(run_queue_pending)", "pending"),
				q("sum(rate(run_queue_start_failures_total[5m]))", "failed starts a second")),
			panel("Events: commit to Redis, P99", "s",
				q("histogram_quantile(0.99, sum by (le) (rate(engine_event_latency_seconds_bucket[5m])))", "P99")),
			panel("Projector", "s",
				q("max(projector_lag_seconds)", "lag"), q("max(projector_overdue_runs)", "overdue runs")),
			panel("Commit to frame, P95", "s", q(p95("dvt_commit_to_frame_seconds", "")+" or vector(0)", "P95")),
			panel("Viewers", "short", q("sum by (sync) (dvt_viewers)", "{{sync}}"), q("sum(dvt_sockets)", "sockets")),
			panel("Findings of the reconciler", "short", q("sum by (kind) (dvt_sweep_open)", "{{kind}}")),
			panel("Processes", "short", q("count by (job) (up == 1)", "{{job}}")),
		}},
		{File: "temporal.json", Title: "dvt: Temporal health", Panels: []Panel{
			panel("Starts, P95", "s", q(p95("engine_start_seconds", ""), "P95")),
			panel("Starts are refused", "short", q("max(engine_start_breaker_open)", "breaker open")),
			panel("Backlog of queues", "short", q("max by (task_queue) (engine_queue_backlog)", "{{task_queue}}")),
			panel("Largest history", "bytes", q("max by (namespace) (workflow_history_size_bytes)", "{{namespace}}")),
			panel("Most steps since the last rotation", "short",
				q("max by (namespace) (workflow_steps_since_continue)", "{{namespace}}")),
			panel("Rejected starts", "ops", q("sum(rate(run_queue_starts_rejected_total[5m]))", "rejected")),
			panel("Starts taken over", "ops", q("sum(rate(run_queue_leases_expired_total[5m]))", "taken over")),
		}},
		{File: "data-plane.json", Title: "dvt: data plane", Panels: []Panel{
			panel("Executions, P95", "s", q(p95("engine_execution_duration_seconds", "type"), "{{type}}")),
			panel("Executions", "ops", q("sum by (type) (rate(worker_executions_total[5m]))", "{{type}}")),
			panel("Slots in use", "percentunit",
				q("sum by (type) (worker_slots_in_use) / sum by (type) (worker_slots)", "{{type}}")),
			panel("Declined executions", "ops",
				q("sum by (type, reason) (rate(worker_declined_total[5m]))", "{{type}} {{reason}}")),
			panel("Tenants at their share", "short", q("sum(worker_tenants_at_share)", "tenants")),
			panel("Memory of workers", "percentunit", q("max by (worker) (worker_memory_pressure_ratio)", "{{worker}}")),
			panel("Actions that the sandbox refused", "ops",
				q("sum by (tenant) (rate(worker_isolation_violations_total[5m])) or vector(0)", "{{tenant}}")),
			panel("Writes to the log, P95", "s", q(p95("state_store_write_duration_seconds", ""), "P95")),
			panel("Events that wait for the store", "short",
				q("sum(state_store_queue_depth)", "outstanding"), q("sum(state_store_buffered_events)", "over write-budget")),
			panel("Clocks of events and store, P95", "s", q(p95("engine_event_clock_skew_seconds", ""), "P95")),
		}},
		{File: "tenants.json", Title: "dvt: tenants", ByTenant: true, Panels: []Panel{
			panel("Quota in use", "percent",
				q(`max by (tenant, action) (engine_tenant_quota_used{tenant=~"$tenant"})`, "{{tenant}} {{action}}")),
			panel("Waiting runs", "short",
				q(`max by (tenant) (engine_tenant_queue_depth{tenant=~"$tenant"})`, "{{tenant}}")),
			panel("Wait, P95", "s",
				q(`histogram_quantile(0.95, sum by (le, tenant) (rate(engine_tenant_wait_time_seconds_bucket{tenant=~"$tenant"}[5m])))`, "{{tenant}}")),
			panel("Starts that met a limit", "ops",
				q(`sum by (tenant, outcome) (rate(engine_backpressure_runs_total{tenant=~"$tenant"}[5m]))`, "{{tenant}} {{outcome}}")),
			panel("Runs that waited too long", "ops",
				q(`sum by (tenant) (rate(engine_queue_ttl_exceeded_total{tenant=~"$tenant"}[5m])) or vector(0)`, "{{tenant}}")),
			panel("Signals a minute of the busiest run", "short",
				q(`max by (tenant) (signal_rate_per_run{tenant=~"$tenant"})`, "{{tenant}}")),
		}},
	}
}
