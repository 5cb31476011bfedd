package main

import (
	"slices"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"
)

// figures returns all figures in the order in which they are measured.
func figures() []rig.Figure {
	return []rig.Figure{
		{Name: "interp-step", What: "one step of a plan of 5,000 against one of a plan of 50",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: interpStep},
		{Name: "steps-sequential",
			What: "Temporal: steps/s of 100 runs at once, each of 10 NOOP steps one after the other, " +
				"against a bare workflow of as many no-op activities on the same server and worker process",
			Goals: []rig.Goal{rig.AtLeast(0.7)}, Setup: besideBare(1, bedOptions{}, 10, 1, stepsOf(100, 100, 10))},
		{Name: "steps-parallel", What: "the same: 20 runs at once, each of 50 steps side by side",
			Goals: []rig.Goal{rig.AtLeast(0.7)}, Setup: besideBare(1, bedOptions{}, 50, 50, stepsOf(20, 20, 50))},
		{Name: "step-latency", What: "the same: a step of a lone run of 20 steps one after the other, p50 of 10 runs",
			Goals: []rig.Goal{rig.AtMost(1.25)}, Setup: besideBare(10, bedOptions{}, 20, 1, stepsOf(1, 1, 20))},
		{Name: "step-cpu", What: "processor time of a step in 50 runs at once of 10 steps one after the other, of this " +
			"process (worker, caller, SQLite) and of " +
			"Temporal, against the bare workflow",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: besideBare(1, bedOptions{}, 10, 1, cpuOf(50, 50, 10))},
		{Name: "step-cpu-postgres", What: "the same with the store on PostgreSQL, whose processor time counts too",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: besideBare(1, bedOptions{postgres: true}, 10, 1, cpuOf(50, 50, 10))},
		{Name: "run-vs-handwritten", What: "Temporal: runs/s of 3-step runs, ten at once, against the bare workflow",
			Goals: []rig.Goal{rig.AtLeast(0.7)}, Setup: besideBare(5, bedOptions{}, 3, 1, runsOf(40, 10))},
		{Name: "history-per-step", What: "Temporal: events in the history that a sequential step adds; the floor is the " +
			"bare workflow",
			Goals: []rig.Goal{rig.Within(7)}, Unit: "events", Setup: perStep(countEvents)},
		{Name: "actions-per-step", What: "the same: what Temporal Cloud bills as actions",
			Goals: []rig.Goal{rig.Within(1)}, Unit: "actions", Setup: perStep(countActions)},
		{Name: "control-beside-dbt", What: "Temporal: 1,000 control steps at once, p95 from the start of the run to the " +
			"end of the step, beside 50 DBT_RUN steps " +
			"that hold the data queue, against without them",
			Goals: []rig.Goal{rig.AtMost(1.2)}, Setup: controlBesideDBT},
		{Name: "neighbour", What: "Temporal: how much longer one-step runs of a tenant take, p95 of 40 from start to end, " +
			"while 10,000 steps of another tenant " +
			"are queued; the floor is what they take in an empty system",
			Goals: []rig.Goal{rig.Within(time.Second)}, Setup: neighbour},
		{Name: "sandbox-start", What: "how much longer /bin/true takes in a sandbox with all parts, p95 of 100 that start " +
			"every 200 ms, than as a plain child; " +
			"the floor is the plain child",
			Goals: []rig.Goal{rig.Within(30 * time.Millisecond)}, Setup: sandboxStart(200 * time.Millisecond)},
		{Name: "sandbox-start-burst", What: "the same with the starts one after the other, so that no shim waits for them",
			Goals: []rig.Goal{rig.Within(60 * time.Millisecond)}, Setup: sandboxStart(0)},
		{Name: "mask-output", What: "processor time of 300 MB of a step's output through the masker of ten secrets (a second is " +
			"300 MB/s of one core); the floor is a copy of it",
			Goals: []rig.Goal{rig.Within(time.Second)}, Setup: maskOutput},
		{Name: "plan-5000", What: "Temporal: one step of a run of 5,000 steps against one of a run of 100, both in " +
			"layers of 50",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: plan5000},
		{Name: "runs-in-flight", What: "Temporal: the memory of one worker with 1,000 runs in flight at once, with the " +
			"store and the clients that start the runs, against 1 GiB",
			Goals: []rig.Goal{rig.AtMost(1)}, Unit: "bytes", Setup: runsInFlight},
		{Name: "fold-event", What: "folding one event into a run of 1,000 steps, by 100 at a time, against a run of 10",
			Goals: []rig.Goal{rig.AtMost(3)}, Setup: foldEvent},
		{Name: "authz-decision", What: "a decision with 100,000 principals and 10,000 policy rows against one with " +
			"10,000 and 1,000",
			Goals: []rig.Goal{rig.AtMost(2)}, Setup: authzDecision},

		{Name: "fan-out", What: "PostgreSQL, 1 ms: 100 executors start an attempt of one run at once, through the " +
			"coalescer against a transaction each",
			Goals: []rig.Goal{rig.AtLeast(4)}, Setup: fanOut},
		{Name: "coalesce-lone", What: "PostgreSQL: one appender, p50, through the coalescer against without",
			Goals: []rig.Goal{rig.AtMost(1.1)}, Setup: coalesceLone},
		{Name: "coalesce-others", What: "PostgreSQL, 1 ms: p99 of 400 appends/s to 8 runs through the coalescer while " +
			"control transactions hold a ninth, " +
			"that is appended to, for 40 ms each, against no such transactions",
			Goals: []rig.Goal{rig.AtMost(1.3)}, Setup: coalesceOthers},

		{Name: "batch-of-16", What: "PostgreSQL, 1 ms: events/s of one workflow that appends by 16 against one by one",
			Goals: []rig.Goal{rig.AtLeast(8)}, Setup: batchOf16},
		{Name: "appenders-32", What: "PostgreSQL, 1 ms: events/s of 32 appenders on 32 runs against pgbench -M prepared, " +
			"32 clients, " +
			"one-row inserts into a table with the columns, primary key and unique key of event, no trigger and no other index",
			Goals: []rig.Goal{rig.AtLeast(0.9)}, Setup: appenders32},
		{Name: "lone-append", What: "PostgreSQL: one appender, p50, against a prepared insert of the same row into a " +
			"table like event, with all its indexes and no trigger",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: loneAppend},
		{Name: "append-at-200", What: "PostgreSQL, 1 ms: p99 of 200 appends/s to 20 runs; the floor is a prepared insert " +
			"of the same row at that pace",
			Goals: []rig.Goal{rig.Within(100 * time.Millisecond)}, Setup: appendAt200},

		{Name: "retention-appends", What: "PostgreSQL, 1 ms: p99 of 200 appends/s to 8 runs while the retention archives, " +
			"empties and deletes old runs, against the same while it rests",
			Goals: []rig.Goal{rig.AtMost(1.2)}, Setup: besideRetention(40*time.Millisecond, appendsBesideRetention)},
		{Name: "retention-lists", What: "the same of 50 lists/s of 50 runs of the tenant whose runs it archives and deletes",
			Goals: []rig.Goal{rig.AtMost(1.2)}, Setup: besideRetention(160*time.Millisecond, listsBesideRetention)},

		{Name: "admission", What: "PostgreSQL, 1 ms: startRun at the store, p50, with every limit, queue row and first " +
			"events, against a transaction of one round trip " +
			"that inserts a run, a queue row and an event into tables like them, with their indexes and no trigger",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: admissionPostgres},
		{Name: "admission-sqlite", What: "SQLite, 1 ms: the same, the three rows by prepared statements",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: rig.Slowed("admission-sqlite", admissionSQLite)},
		{Name: "starts-one-project", What: "PostgreSQL, 1 ms: startRun, p95, with 20 starters of one project, each of " +
			"which pauses 0.1 s on average, together about 190 a second, " +
			"against a lone starter that pauses a twentieth of that",
			Goals: []rig.Goal{rig.AtMost(2)}, Setup: startsOneProject},
		{Name: "queue-pick", What: "PostgreSQL, 1 ms: one run admitted of 10^5 that wait in 1,000 tenants, p50, " +
			"against one of 10",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: queuePickPostgres},
		{Name: "queue-pick-sqlite", What: "SQLite: the same", Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: queuePickSQLite},

		{Name: "sqlite-append", What: "SQLite: one appender, p50, against a raw insert of the same row",
			Goals: []rig.Goal{rig.AtMost(6)}, Setup: sqliteAppend},
		{Name: "sqlite-appenders-32", What: "SQLite, 1 ms: events/s of 32 appenders on 32 runs against a transaction for " +
			"each event that only inserts it, " +
			"moves the head and marks the run dirty, by prepared statements on the same schema",
			Goals: []rig.Goal{rig.AtLeast(10)}, Setup: rig.Slowed("sqlite-appenders-32", sqliteAppenders32)},

		{Name: "trace-export", What: "PostgreSQL: processor time that the export of all traces and of a tenth of the calls " +
			"adds to a process that appends and projects 500 events a second, against that of one core",
			Goals: []rig.Goal{rig.AtMost(0.02)}, Setup: traceExport},

		{Name: "large-log", What: "PostgreSQL: an append to a run of 10^5 events in a log of 10^7, p50, against one to " +
			"an empty log",
			Goals: []rig.Goal{rig.AtMost(1.3)}, Setup: largeLog},
		{Name: "sqlite-large-log", What: "SQLite: an append to a run of 10^5 events in a log of 10^6, p50, against one to " +
			"an empty log",
			Goals: []rig.Goal{rig.AtMost(1.3)}, Setup: sqliteLargeLog},

		{Name: "list-page", What: "PostgreSQL: a page of 10^6 runs, p50, against one of 10^3: the worst of six, first, " +
			"last and in the middle, both ways",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: postgresLists(pageQueries())},
		{Name: "list-filters", What: "PostgreSQL: a page of a filter of 10^6 runs, p50, against one of 10^3: the worst " +
			"of 23 filters",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: postgresLists(filterQueries())},
		{Name: "list-plans", What: "PostgreSQL: a page of plans with their newest 30 runs, of 10^6 runs, p50, against " +
			"10^3: the worst of two",
			Goals: []rig.Goal{rig.AtMost(3)}, Setup: postgresLists(planQueries())},
		{Name: "sqlite-list-plans", What: "SQLite: a page of plans with their newest 30 runs, of 10^6 runs, p50, " +
			"against 10^3: the worst of two",
			Goals: []rig.Goal{rig.AtMost(3)}, Setup: sqliteLists(planQueries())},
		{Name: "sqlite-list-page", What: "SQLite: a page of 10^6 runs, p50, against one of 10^3: the worst of six, first, " +
			"last and in the middle, both ways",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: sqliteLists(pageQueries())},
		{Name: "sqlite-list-filters", What: "SQLite: a page of a filter of 10^6 runs, p50, against one of 10^3: the worst " +
			"of 23 filters",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: sqliteLists(filterQueries())},

		{Name: "save-step", What: "PostgreSQL: saving one changed step of a run of 1,000 steps, p50, against one of " +
			"a run of 10",
			Goals: []rig.Goal{rig.AtMost(1.2)}, Setup: saveStep},
		{Name: "sqlite-save-step", What: "SQLite: saving one changed step of a run of 1,000 steps, p50, against one of " +
			"a run of 10",
			Goals: []rig.Goal{rig.AtMost(1.2)}, Setup: sqliteSaveStep},

		{Name: "bus-receipt", What: "PostgreSQL and Redis: commit to receipt from the bus, p99, at 1,000 appends/s over " +
			"100 runs; the floor is the bus alone, " +
			"PUBLISH to receipt at that pace under those appends, without a projector",
			Goals: []rig.Goal{rig.Within(10 * time.Millisecond), rig.AtMost(3).Named("bus-receipt-ratio")}, Setup: busReceipt},

		{Name: "frame-prepared", What: "server CPU of one shared frame of 20 steps, 1,000 viewers of one run, the next " +
			"update when all have the last, " +
			"from the message off the bus to the socket, without store and projector; against gorilla's PreparedMessage of " +
			"the same bytes, a goroutine for each socket",
			Goals: []rig.Goal{rig.AtMost(1.2)}, Setup: rig.Apart("frame-prepared", framePrepared)},
		{Name: "frame-stock", What: "the same against the same resolvers behind gqlgen's own handler and websocket transport",
			Goals: []rig.Goal{rig.AtMost(0.02)}, Setup: rig.Apart("frame-stock", againstStock(1, 100, 8))},
		{Name: "viewers-1000-runs", What: "frames per second of server CPU, 1,000 viewers of 1,000 runs, which share " +
			"nothing, against gqlgen's own handler and transport; as frame-stock",
			Goals: []rig.Goal{rig.AtLeast(10)}, Setup: rig.Apart("viewers-1000-runs", againstStock(fewViewers, 20, 6))},
		{Name: "viewers-1000", What: "SQLite and Redis, server on one core: commit to receive, p99, 1,000 viewers of one " +
			"run, 5 updates/s; " +
			"the floor is centrifuge, publish to receive of the same payload at that pace",
			Goals: []rig.Goal{rig.Within(15 * time.Millisecond), rig.AtMost(1.5).Named("viewers-1000-centrifuge")},
			Setup: rig.Apart("viewers-1000", receiptsOf(fewViewers, 20, time.Second/5, 2))},
		{Name: "viewers-10000", What: "the same with 10,000 viewers, 1 update/s, and the server on every core, " +
			"including that of the load generator; a disconnected viewer is an error; " +
			"the floor is a server under the same conditions that only sends the same bytes, as websocket.PreparedMessage",
			Goals: []rig.Goal{rig.AtMost(1.2)}, Setup: rig.Apart("viewers-10000", tenThousand)},
		{Name: "idle-viewer", What: "resident memory of a server for each of 5,000 viewers of one run after the first " +
			"100, idle, after a collection, without that of the kernel; the floor is centrifuge",
			Goals: []rig.Goal{rig.Within(12 * 1024), rig.AtMost(0.5).Named("idle-viewer-centrifuge")}, Unit: "bytes",
			Setup: rig.Apart("idle-viewer", idleViewer)},
		{Name: "delta-1000", What: "server CPU of one update in DELTA mode of a run of 1,000 steps, one viewer, from the " +
			"message off the bus to the socket, against a run of 10",
			Goals: []rig.Goal{rig.AtMost(1.5)}, Setup: rig.Apart("delta-1000",
				delta(func(s usage) int64 { return int64(s.cpu) }))},
		{Name: "delta-1000-bytes", What: "the same: bytes of the frame", Goals: []rig.Goal{rig.AtMost(1.5)}, Unit: "bytes",
			Setup: rig.Apart("delta-1000-bytes", delta(func(s usage) int64 { return s.bytes }))},
		{Name: "list-json", What: "requests per second of server CPU: a list of 50 runs with 20 steps each, from memory, " +
			"four clients, " +
			"against net/http and encoding/json writing the same bytes",
			Goals: []rig.Goal{rig.AtLeast(0.5)}, Setup: rig.Apart("list-json", listJSON)},
		{Name: "pause-to-paused", What: "`dvt dev` with Temporal, idle: PAUSE mutation to the frame that says PAUSED, " +
			"p95 of 40; " +
			"the floor is a bare workflow, from its signal to the activity that it starts, p95",
			Goals: []rig.Goal{rig.Within(50 * time.Millisecond)}, Setup: pauseToPaused},
		{Name: "query-flood-neighbour", What: "`dvt dev`: a list of runs of one tenant, p99 of 200, while 20 clients of " +
			"another ask for a plan of 3 MiB, " +
			"ten by 49 aliases and ten by the most that are permitted; the floor is the idle server",
			Goals: []rig.Goal{rig.Within(time.Second)}, Setup: queryFloodNeighbour},
		{Name: "query-flood-memory", What: "the same: by how much the resident memory of the server grows at its highest; " +
			"the floor is the memory before",
			Goals: []rig.Goal{rig.Within(200 << 20)}, Unit: "bytes", Setup: queryFloodMemory},

		{Name: "ui-header", What: "UI, CPU slowed 4x, 10 Mbit/s, 40 ms: from the address to the header of a run of 5,000 " +
			"steps; the floor is a run of 5",
			Goals: []rig.Goal{rig.Within(2 * time.Second)}, Setup: browser("ui-header")},
		{Name: "ui-mosaic", What: "the same: to its mosaic; the floor is the graph of a run of 5",
			Goals: []rig.Goal{rig.Within(2500 * time.Millisecond)}, Setup: browser("ui-mosaic")},
		{Name: "ui-runs-lcp", What: "the same: to the largest contentful paint of the runs page, 60 runs; the floor " +
			"is its first paint",
			Goals: []rig.Goal{rig.Within(1800 * time.Millisecond)}, Setup: browser("ui-runs-lcp")},
		{Name: "ui-runs-inp", What: "UI, CPU slowed 4x: from an input to the next paint, on that page, the longest of " +
			"30; the floor is a key that does nothing",
			Goals: []rig.Goal{rig.Within(200 * time.Millisecond)}, Setup: browser("ui-runs-inp")},
		{Name: "ui-live-1000", What: "UI: the main thread's time in a second, a run of 1,000 steps, 10 updates/s of 20 " +
			"steps added to its stream, 20 s each time; the floor is the page at rest",
			Goals: []rig.Goal{rig.Within(80 * time.Millisecond)}, Setup: browser("ui-live-1000")},
		{Name: "ui-live-5000", What: "UI: the same of a run of 5,000 steps against 1,000",
			Goals: []rig.Goal{rig.AtMost(1.3)}, Setup: browser("ui-live-5000")},
		{Name: "ui-live-frames", What: "UI: from frame to frame, p99, a run of 1,000 steps under those updates; the floor " +
			"is the page at rest",
			Goals: []rig.Goal{rig.Within(34 * time.Millisecond)}, Setup: browser("ui-live-frames")},
		{Name: "ui-layout", What: "UI: the layout of 5,000 steps, by a worker, as the page waits for it; the floor is " +
			"1,100 steps",
			Goals: []rig.Goal{rig.Within(400 * time.Millisecond)}, Setup: browser("ui-layout")},
		{Name: "ui-graph-mount", What: "UI: from the click to all of 5,000 steps drawn as a graph, its layout kept; the " +
			"floor is the graph around one step",
			Goals: []rig.Goal{rig.Within(300 * time.Millisecond)}, Setup: browser("ui-graph-mount")},
		{Name: "ui-graph-pan", What: "UI: from frame to frame, p95, while that graph is dragged; the floor is the " +
			"page at rest",
			Goals: []rig.Goal{rig.Within(24 * time.Millisecond)}, Setup: browser("ui-graph-pan")},
		{Name: "ui-timeline-scroll", What: "UI: the same while a timeline of 5,000 rows is scrolled",
			Goals: []rig.Goal{rig.Within(24 * time.Millisecond)}, Setup: browser("ui-timeline-scroll")},
		{Name: "ui-dialog", What: "UI: from the click on an action to its dialog, p95 of 20; the floor is the fastest",
			Goals: []rig.Goal{rig.Within(100 * time.Millisecond)}, Setup: browser("ui-dialog")},
		{Name: "ui-preview", What: "UI: the same to the server's preview of the effect, p95 of 20; the floor is the fastest",
			Goals: []rig.Goal{rig.Within(300 * time.Millisecond)}, Setup: browser("ui-preview")},
		{Name: "ui-compare", What: "UI: from a link to the comparison of two runs of 3,000 steps, its first 500 rows shown; " +
			"the floor is two runs of 5 steps",
			Goals: []rig.Goal{rig.Within(300 * time.Millisecond)}, Setup: browser("ui-compare")},
		{Name: "ui-log-error", What: "UI: from the key to the line of the error, at the end of a log of 1,000,000 lines; " +
			"the floor is a log of 10",
			Goals: []rig.Goal{rig.Within(time.Second)}, Setup: browser("ui-log-error")},
		{Name: "ui-log-find", What: "UI: from the last letter to the number of matches in all of that log, with the " +
			"first match shown; the floor is a log of 10",
			Goals: []rig.Goal{rig.Within(2 * time.Second)}, Setup: browser("ui-log-find")},
	}
}

// figureOf returns the figure of this name, or the figure with a goal of this name.
func figureOf(name string) (rig.Figure, bool) {
	for _, f := range figures() {
		if f.Name == name || slices.ContainsFunc(f.Goals, func(g rig.Goal) bool { return g.Name == name }) {
			return f, true
		}
	}
	return rig.Figure{}, false
}

// names returns the names of all figures.
func names() (out []string) {
	for _, f := range figures() {
		out = append(out, f.Name)
	}
	return out
}
