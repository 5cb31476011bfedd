// Package slo is the table of what dvt promises and measures: its metrics, its service level objectives, the rules and
// alerts that follow from them, and the dashboards. The files under deploy/ and the table of metrics in
// docs/operations.md are generated from it.
package slo

//go:generate go run ../cmd/slogen ../..

import "strings"

// Process is a set of kinds of processes.
type Process int

// The kinds of processes that serve metrics.
const (
	Dev Process = 1 << iota
	Server
	ControlWorker
	DataWorker

	API     = Dev | Server                     // has the API
	Stores  = API | ControlWorker              // reaches the store
	Workers = ControlWorker | DataWorker | Dev // executes steps
	Data    = DataWorker | Dev                 // executes programs
)

// String names the kinds in a sentence.
func (p Process) String() string {
	var names []string
	for _, k := range []struct {
		p    Process
		name string
	}{{Server, "server"}, {ControlWorker, "control worker"}, {DataWorker, "data worker"}, {Dev, "dev"}} {
		if p&k.p != 0 {
			names = append(names, k.name)
		}
	}
	return strings.Join(names, ", ")
}

// The types of metrics.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"
)

// Metric is one metric of dvt. Metrics of the Go runtime and of the process, go_… and process_…, are not in the table.
type Metric struct {
	Name, Type string
	Labels     []string
	Meaning    string
	On         Process
	// Rare metrics have series only after something happened, so that a process may serve none of them.
	Rare bool
	// Instead is the conventional metric to use in place of one whose name the contract fixes against the conventions of
	// Prometheus.
	Instead string
}

func l(names ...string) []string { return names }

// Metrics returns the table, in the order of the documentation.
func Metrics() []Metric {
	return []Metric{
		// Runs and steps.
		{Name: "engine_steps_executed_total", Type: Counter, Labels: l("type", "status"), On: Stores,
			Meaning: "attempts of steps that ended: SUCCESS, FAILED or SKIPPED. A projector that takes work over after a " +
				"crash may count an end again"},
		{Name: "engine_execution_duration_seconds", Type: Histogram, Labels: l("type"), On: Workers,
			Meaning: "duration of one execution of a step on this worker; every engine attempt is one"},
		{Name: "engine_errors_total", Type: Counter, Labels: l("category"), On: Stores,
			Meaning: "attempts of steps that failed, and runs that failed without a failed step: USER, SYSTEM, PLATFORM, " +
				"TIMEOUT or OTHER"},
		{Name: "engine_run_duration_seconds", Type: Histogram, On: Stores,
			Meaning: "time from the acceptance of a run to its end, waits included"},
		{Name: "engine_signal_latency_seconds", Type: Histogram, On: Stores,
			Meaning: "time from the acceptance of a signal until the engine answered it; not of signals that are applied " +
				"when they are accepted"},
		{Name: "signal_rate_per_run", Type: Gauge, Labels: l("tenant"), On: Stores, Rare: true,
			Meaning: "highest number of signals within the last minute that this server accepted for one run of a tenant"},
		// Traces; only with an endpoint.
		{Name: "dvt_trace_spans_exported_total", Type: Counter, On: API, Rare: true,
			Meaning: "spans of runs that the receiver of traces accepted"},
		{Name: "dvt_trace_spans_refused_total", Type: Counter, On: API, Rare: true,
			Meaning: "spans that it refused for their content; they are dropped"},
		{Name: "dvt_trace_send_failures_total", Type: Counter, On: API, Rare: true,
			Meaning: "requests that it did not accept; they are repeated"},
		{Name: "dvt_trace_lag_seconds", Type: Gauge, On: API, Rare: true,
			Meaning: "age of the oldest event whose spans wait; 0 when none waits"},
		{Name: "dvt_request_spans_dropped_total", Type: Counter, On: Stores, Rare: true,
			Meaning: "spans of requests and calls that were not sent, because a process sends at most 200 in a second"},
		// Destinations; only with a file of destinations.
		{Name: "dvt_destination_sent_total", Type: Counter, Labels: l("destination"), On: API, Rare: true,
			Meaning: "messages that a destination accepted"},
		{Name: "dvt_destination_failures_total", Type: Counter, Labels: l("destination"), On: API, Rare: true,
			Meaning: "tries that it did not accept; most are repeated"},
		{Name: "dvt_destination_dead_letters_total", Type: Counter, Labels: l("destination"), On: API, Rare: true,
			Meaning: "messages that it refused or did not accept within all tries"},
		{Name: "dvt_destination_oldest_waiting_seconds", Type: Gauge, Labels: l("destination"), On: API, Rare: true,
			Meaning: "age of the oldest message that waits for it; 0 when none waits"},
		// The queue and quotas.
		{Name: "engine_queue_wait_seconds", Type: Histogram, On: Stores,
			Meaning: "time that runs waited in the queue, from RunQueued to RunApproved"},
		{Name: "engine_tenant_wait_time_seconds", Type: Histogram, Labels: l("tenant"), On: Stores, Rare: true,
			Meaning: "the same by tenant"},
		{Name: "engine_tenant_wait_time_p95_ms", Type: Gauge, Labels: l("tenant", "action"), On: Stores, Rare: true,
			Instead: "engine_tenant_wait_time_seconds",
			Meaning: "95th percentile of the last 256 waits of a tenant that ended here within 5 minutes"},
		{Name: "engine_tenant_quota_used", Type: Gauge, Labels: l("tenant", "action"), On: Stores, Rare: true,
			Meaning: "percent of a tenant's quota in use; every 10 s, of tenants busy on this server within 5 minutes"},
		{Name: "engine_tenant_queue_depth", Type: Gauge, Labels: l("tenant", "action"), On: Stores, Rare: true,
			Meaning: "waiting runs of a tenant, for the same tenants"},
		{Name: "engine_backpressure_runs_total", Type: Counter, Labels: l("tenant", "outcome"), On: Stores, Rare: true,
			Meaning: "starts of runs that met a limit: queued, rejected or delayed (accepted for later)"},
		{Name: "engine_backpressure_queued", Type: Gauge, Labels: l("tenant"), On: Stores, Rare: true,
			Instead: "engine_backpressure_runs_total", Meaning: "runs that were queued; it only grows"},
		{Name: "engine_backpressure_rejected", Type: Gauge, Labels: l("tenant"), On: Stores, Rare: true,
			Instead: "engine_backpressure_runs_total", Meaning: "runs that were refused; it only grows"},
		{Name: "engine_backpressure_delayed", Type: Gauge, Labels: l("tenant"), On: Stores, Rare: true,
			Instead: "engine_backpressure_runs_total", Meaning: "runs that were accepted for later; it only grows"},
		{Name: "engine_backpressure_rejections_total", Type: Counter, Labels: l("tenant"), On: Stores, Rare: true,
			Meaning: "runs that were refused because of a quota or a full queue"},
		{Name: "engine_queue_ttl_exceeded_total", Type: Counter, Labels: l("tenant"), On: Stores, Rare: true,
			Meaning: "runs that waited too long"},
		{Name: "run_queue_estimate_error_seconds", Type: Histogram, On: Stores,
			Meaning: "difference between the estimated and the actual wait of a run"},
		{Name: "run_queue_pending", Type: Gauge, On: Stores,
			Meaning: "admitted runs of the whole installation that should have started by now and have not; every 10 s"},
		{Name: "run_queue_pending_total", Type: Gauge, On: Stores, Instead: "run_queue_pending", Meaning: "the same"},
		{Name: "run_queue_leases_expired_total", Type: Counter, On: Stores,
			Meaning: "starts taken over from a lost server"},
		{Name: "run_queue_start_failures_total", Type: Counter, On: Stores,
			Meaning: "starts that failed and are tried again"},
		{Name: "run_queue_starts_rejected_total", Type: Counter, On: Stores,
			Meaning: "runs that failed with ENGINE_START_REJECTED: the engine refused to start them six times within " +
				"about a minute, for example because the namespace does not exist. An engine that does not answer fails no " +
				"run"},
		// The engine.
		{Name: "engine_queue_backlog", Type: Gauge, Labels: l("adapter", "task_queue"), On: Stores, Rare: true,
			Meaning: "tasks that wait in a queue of the engine; every 10 s, of at most 200 queues that a run started here " +
				"used within an hour"},
		{Name: "engine_queue_depth", Type: Gauge, Labels: l("adapter", "taskQueue"), On: Stores, Rare: true,
			Instead: "engine_queue_backlog", Meaning: "the same"},
		{Name: "engine_start_seconds", Type: Histogram, On: Stores,
			Meaning: "duration of starts in the engine, failures included"},
		{Name: "engine_start_breaker_open", Type: Gauge, On: Stores,
			Meaning: "1 while this process refuses new runs because the engine starts them too slowly"},
		{Name: "engine_refused_calls_total", Type: Counter, Labels: l("call", "reason"), On: Stores, Rare: true,
			Meaning: "calls of workers and workflows to the log that were refused"},
		{Name: "workflow_history_size_bytes", Type: Gauge, Labels: l("namespace"), On: Workers,
			Meaning: "largest history among the open executions that this worker served within ten minutes"},
		{Name: "workflow_steps_since_continue", Type: Gauge, Labels: l("namespace"), On: Workers,
			Meaning: "largest number of steps that one of them has scheduled"},
		{Name: "dvt_temporal_drift", Type: Gauge, Labels: l("namespace", "kind"), On: API | ControlWorker, Rare: true,
			Meaning: "differences between a namespace of Temporal and the settings, by kind: namespace, retention, attribute, " +
				"type, archival or unknown; every ten minutes. See [Namespaces](#namespaces)"},
		// The store.
		{Name: "state_store_write_duration_seconds", Type: Histogram, On: Stores,
			Meaning: "duration of the writes of runs and steps, including unanswered tries"},
		{Name: "state_store_write_latency_ms", Type: Histogram, On: Stores, Instead: "state_store_write_duration_seconds",
			Meaning: "the same in milliseconds"},
		{Name: "state_store_write_timeouts_total", Type: Counter, On: Stores,
			Meaning: "writes that took longer than `write-budget`"},
		{Name: "state_store_queue_depth", Type: Gauge, On: Stores, Meaning: "events whose confirmation is outstanding"},
		{Name: "state_store_buffered_events", Type: Gauge, On: Stores,
			Meaning: "events that have waited for their confirmation for longer than `write-budget`"},
		{Name: "state_store_buffered_events_total", Type: Gauge, On: Stores, Instead: "state_store_buffered_events",
			Meaning: "the same"},
		{Name: "append_payload_mismatch_total", Type: Counter, On: Stores,
			Meaning: "events that came again with another payload; the first one remains"},
		{Name: "engine_event_clock_skew_seconds", Type: Histogram, On: Stores,
			Meaning: "difference between the clock of an event's producer and that of the store; an unanswered try adds " +
				"to it"},
		{Name: "dvt_clock_skew_seconds", Type: Gauge, On: Stores,
			Meaning: "how far the clock of a process is ahead of the store's; below 0 when it is behind"},
		// The projector and the bus.
		{Name: "engine_event_latency_seconds", Type: Histogram, On: Stores,
			Meaning: "time from the commit of an event until Redis has its message"},
		{Name: "eventbus_publish_failures_total", Type: Counter, Labels: l("bus"), On: Stores,
			Meaning: "messages that Redis refused or could not take"},
		{Name: "eventbus_dead_letters_total", Type: Counter, Labels: l("bus"), On: Stores,
			Meaning: "messages that became dead letters"},
		{Name: "eventbus_breaker_state", Type: Gauge, Labels: l("bus", "state"), On: Stores,
			Meaning: "1 for the current state of the breaker"},
		{Name: "projector_lag_seconds", Type: Gauge, On: Stores,
			Meaning: "age of the oldest event that no view has; 0 when there is none"},
		{Name: "projector_overdue_runs", Type: Gauge, On: Stores,
			Meaning: "runs of the whole installation with changes that no projector has published for 30 s, at most 1000; " +
				"every 10 s"},
		{Name: "projector_alerts_total", Type: Counter, Labels: l("alert", "severity"), On: Stores,
			Meaning: "alerts of the projector; each is also a line in the log"},
		{Name: "dvt_bus_up", Type: Gauge, On: API, Meaning: "1 while Redis answers"},
		{Name: "dvt_site_standby", Type: Gauge, On: API, Meaning: "1 while the process belongs to a standby site"},
		{Name: "dvt_replica_lag_bytes", Type: Gauge, On: API,
			Meaning: "bytes of the log of the primary that the database of a standby has not replayed; 0 for a role that may " +
				"not see it"},
		{Name: "dvt_replica_lag_seconds", Type: Gauge, On: API,
			Meaning: "age of the newest transaction of a standby that is behind its primary"},
		{Name: "dvt_dependency_up", Type: Gauge, Labels: l("check"), On: API,
			Meaning: "1 while a part that dvt needs works, by check of the health, every `health-interval`"},
		// Views and streams.
		{Name: "dvt_watched_runs", Type: Gauge, On: API, Meaning: "runs that this server watches"},
		{Name: "dvt_streams", Type: Gauge, On: API, Meaning: "open streams"},
		{Name: "dvt_viewers", Type: Gauge, Labels: l("sync"), On: Stores,
			Meaning: "streams of runs by the state of their view"},
		{Name: "dvt_commit_to_frame_seconds", Type: Histogram, On: Stores,
			Meaning: "time from the commit of an event until the server sends the frame that shows it"},
		{Name: "dvt_frames_total", Type: Counter, Labels: l("kind"), On: Stores, Meaning: "frames of streams of runs"},
		{Name: "dvt_stream_frames_conflated_total", Type: Counter, On: Stores,
			Meaning: "frames that newer ones replaced because their viewer was slow"},
		{Name: "dvt_resyncs_total", Type: Counter, Labels: l("cause"), On: Stores, Meaning: "extra reads of watched runs"},
		{Name: "dvt_head_check_missed_total", Type: Counter, On: Stores, Meaning: "changes that no message announced"},
		{Name: "dvt_list_pages", Type: Gauge, On: Stores, Meaning: "watched pages of runs"},
		{Name: "dvt_list_looks_total", Type: Counter, Labels: l("cause"), On: Stores,
			Meaning: "reads of the changes of watched lists"},
		{Name: "dvt_sockets", Type: Gauge, On: API, Meaning: "open sockets and event streams"},
		{Name: "dvt_shared_groups", Type: Gauge, On: API, Meaning: "executions of shared subscriptions"},
		{Name: "dvt_shared_viewers", Type: Gauge, On: API, Meaning: "viewers that they serve"},
		{Name: "dvt_frames_conflated_total", Type: Counter, On: API,
			Meaning: "payloads that a slow viewer did not get because a newer one followed"},
		{Name: "dvt_slow_peers_dropped_total", Type: Counter, On: API,
			Meaning: "sockets and event streams that were closed because their peer did not read"},
		{Name: "dvt_streams_ended_total", Type: Counter, Labels: l("code"), On: API, Rare: true,
			Meaning: "ended sockets and operations; see [How sockets end](#how-sockets-end)"},
		// Duties, rights and the audit.
		{Name: "dvt_alerts_total", Type: Counter, Labels: l("level"), On: Stores, Meaning: "alerts about runs"},
		{Name: "dvt_swept_total", Type: Counter, Labels: l("kind", "action"), On: Stores, Rare: true,
			Meaning: "actions of the reconciler; see [Stalled runs](#stalled-runs)"},
		{Name: "dvt_sweep_open", Type: Gauge, Labels: l("kind"), On: Stores,
			Meaning: "findings of this server that are not repaired yet"},
		{Name: "dvt_bulk_rows_total", Type: Counter, Labels: l("outcome"), On: Stores, Meaning: "rows of [bulks](#bulks)"},
		{Name: "dvt_panics_total", Type: Counter, Labels: l("duty"), On: Stores, Rare: true,
			Meaning: "[panics](#panics) that were contained"},
		{Name: "dvt_denials_total", Type: Counter, Labels: l("action"), On: Stores,
			Meaning: "denied actions; an action outside of the table of actions is `OTHER`"},
		{Name: "dvt_auth_failures_total", Type: Counter, Labels: l("kind"), On: Stores,
			Meaning: "requests whose sender could not be authenticated"},
		{Name: "dvt_share_requests_total", Type: Counter, Labels: l("outcome"), On: API,
			Meaning: "requests for [share links](#share-links)"},
		{Name: "dvt_artifact_requests_total", Type: Counter, Labels: l("outcome"), On: API,
			Meaning: "requests for [artifacts](#downloads-of-artifacts)"},
		{Name: "dvt_artifact_served_bytes_total", Type: Counter, On: API, Meaning: "bytes of artifacts that were sent"},
		{Name: "dvt_artifact_downloads", Type: Gauge, On: API, Meaning: "downloads of artifacts that are under way"},
		{Name: "dvt_audit_unlinked_seconds", Type: Gauge, On: Stores,
			Meaning: "age of the oldest audit row that waits for its link"},
		{Name: "dvt_audit_link_failures_total", Type: Counter, On: Stores,
			Meaning: "rounds in which rows of some tenant could not be linked"},
		{Name: "dvt_audit_heads_failures_total", Type: Counter, On: Stores, Rare: true,
			Meaning: "rounds in which signed heads were not written"},
		{Name: "dvt_audit_heads_written_timestamp_seconds", Type: Gauge, On: Stores, Rare: true,
			Meaning: "when this server last saw signed heads written"},
		// Retention; only on servers with the duty retain.
		{Name: "dvt_retention_runs_total", Type: Counter, Labels: l("outcome"), On: API, Rare: true,
			Meaning: "runs that passes of the retention `archived`, `deleted`, kept for a hold (`held`) or for another reason " +
				"(`waiting`)"},
		{Name: "dvt_retention_archived_bytes_total", Type: Counter, On: API, Meaning: "bytes of archives that were written"},
		{Name: "dvt_retention_deleted_events_total", Type: Counter, On: API,
			Meaning: "events of archived runs that were deleted from the store"},
		{Name: "dvt_retention_removed_objects_total", Type: Counter, On: API,
			Meaning: "step logs and artifacts that were removed from the bucket"},
		{Name: "dvt_retention_failures_total", Type: Counter, On: API,
			Meaning: "runs that could not be archived or deleted, and steps of a pass that failed"},
		{Name: "dvt_retention_pauses_total", Type: Counter, On: API,
			Meaning: "pauses of a pass because the projector was late"},
		{Name: "dvt_retention_pass_ended_timestamp_seconds", Type: Gauge, On: API,
			Meaning: "when a pass over all tenants last ended in this process"},
		{Name: "dvt_retention_overdue_seconds", Type: Gauge, On: API,
			Meaning: "how late the retention is: since when the oldest thing that a pass could not archive or delete was due, " +
				"or the delay of the pass; 0 where another process works on it"},
		// Erasures; only on servers with the duty reconcile.
		{Name: "dvt_erasures_open", Type: Gauge, Labels: l("phase"), On: API, Rare: true,
			Meaning: "requests to [erase](#erasure) that have not ended: `ASKED`, `EXPIRED` without a confirmation, `CONFIRMED`, " +
				"`HELD` by a legal hold, or the phase of those that have begun"},
		{Name: "dvt_erasure_oldest_seconds", Type: Gauge, On: API,
			Meaning: "age of the oldest request to erase that has not ended; it has to end within 30 days"},
		{Name: "dvt_erasure_erased", Type: Gauge, On: API,
			Meaning: "rows, objects and keys that the erasures under way have erased so far"},
		// Workers.
		{Name: "dvt_workspace_bytes", Type: Gauge, On: Data,
			Meaning: "bytes of the workspaces of runs on the disk of this worker, at the last sweep"},
		{Name: "dvt_workspaces", Type: Gauge, On: Data,
			Meaning: "workspaces of runs on the disk of this worker, at the last sweep"},
		{Name: "dvt_workspaces_removed_total", Type: Counter, Labels: l("reason"), On: Data,
			Meaning: "workspaces that this worker removed: their runs `ended`, no step used them for long (`idle`), or a kill " +
				"interrupted their removal (`rest`)"},
		{Name: "dvt_workspace_full_total", Type: Counter, On: Data,
			Meaning: "steps that failed because the workspace of their run was full"},
		{Name: "worker_slots", Type: Gauge, Labels: l("type"), On: Workers,
			Meaning: "most executions that this worker runs at once"},
		{Name: "worker_slots_in_use", Type: Gauge, Labels: l("type"), On: Workers, Meaning: "executions that run now"},
		{Name: "worker_executions_total", Type: Counter, Labels: l("type"), On: Workers,
			Meaning: "executions that took a slot"},
		{Name: "worker_declined_total", Type: Counter, Labels: l("type", "reason"), On: Workers,
			Meaning: "executions that were handed back before they began; see [Slots and rates](#slots-and-rates)"},
		{Name: "worker_tenants_at_share", Type: Gauge, On: Workers,
			Meaning: "tenants that hold all that `slots-by-tenant` allows them"},
		{Name: "worker_isolation_violations_total", Type: Counter, Labels: l("worker", "tenant"), On: Data, Rare: true,
			Meaning: "actions of steps that the sandbox refused; see [The sandbox of steps](#the-sandbox-of-steps)"},
		{Name: "worker_secret_reads_total", Type: Counter, Labels: l("provider", "outcome"), On: Data, Rare: true,
			Meaning: "reads of [secrets](#secrets-of-steps): `read`, `cached`, `not_found`, `denied`, `throttled`, `unavailable`"},
		{Name: "worker_secret_read_duration_seconds", Type: Histogram, Labels: l("provider"), On: Data, Rare: true,
			Meaning: "time of one request for a secret"},
		{Name: "worker_secret_revocations_total", Type: Counter, Labels: l("provider", "outcome"), On: Data, Rare: true,
			Meaning: "tries to end a lease: `ok` or `failed`"},
		{Name: "worker_secrets_provider_up", Type: Gauge, Labels: l("provider"), On: Data, Rare: true,
			Meaning: "1 while this worker can use a provider of secrets"},
		{Name: "worker_memory_pressure_ratio", Type: Gauge, Labels: l("worker"), On: Data,
			Meaning: "memory in use by the worker and its steps, as a share of what they may have"},
	}
}
