package main

import "time"

// figures are all claims, in the order in which they are measured.
func figures() []figure {
	return []figure{
		{name: "interp-step", what: "one step of a plan of 5,000 against one of a plan of 50",
			goals: []goal{atMost(1.5)}, setup: interpStep},
		{name: "steps-sequential", what: "Temporal: steps/s of 100 runs at once, each of 10 NOOP steps one after the other, " +
			"against a bare workflow of as many no-op activities on the same server and worker process",
			goals: []goal{atLeast(0.7)}, setup: besideBare(1, bedOptions{}, 10, 1, stepsOf(100, 100, 10))},
		{name: "steps-parallel", what: "the same: 20 runs at once, each of 50 steps side by side",
			goals: []goal{atLeast(0.7)}, setup: besideBare(1, bedOptions{}, 50, 50, stepsOf(20, 20, 50))},
		{name: "step-latency", what: "the same: a step of a lone run of 20 steps one after the other, p50 of 10 runs",
			goals: []goal{atMost(1.25)}, setup: besideBare(10, bedOptions{}, 20, 1, stepsOf(1, 1, 20))},
		{name: "step-cpu", what: "processor time of a step in 50 runs at once of 10 steps one after the other, of this " +
			"process (worker, caller, SQLite) and of " +
			"Temporal, against the bare workflow",
			goals: []goal{atMost(1.5)}, setup: besideBare(1, bedOptions{}, 10, 1, cpuOf(50, 50, 10))},
		{name: "step-cpu-postgres", what: "the same with the store on PostgreSQL, whose processor time counts too",
			goals: []goal{atMost(1.5)}, setup: besideBare(1, bedOptions{postgres: true}, 10, 1, cpuOf(50, 50, 10))},
		{name: "run-vs-handwritten", what: "Temporal: runs/s of 3-step runs, ten at once, against the bare workflow",
			goals: []goal{atLeast(0.7)}, setup: besideBare(5, bedOptions{}, 3, 1, runsOf(40, 10))},
		{name: "history-per-step", what: "Temporal: events in the history that a sequential step adds; the floor is the " +
			"bare workflow",
			goals: []goal{within(7)}, unit: "events", setup: perStep(countEvents)},
		{name: "actions-per-step", what: "the same: what Temporal Cloud bills as actions",
			goals: []goal{within(1)}, unit: "actions", setup: perStep(countActions)},
		{name: "control-beside-dbt", what: "Temporal: 1,000 control steps at once, p95 from the start of the run to the " +
			"end of the step, beside 50 DBT_RUN steps " +
			"that hold the data queue, against without them",
			goals: []goal{atMost(1.2)}, setup: controlBesideDBT},
		{name: "neighbour", what: "Temporal: how much longer one-step runs of a tenant take, p95 of 40 from start to end, " +
			"while 10,000 steps of another tenant " +
			"are queued; the floor is what they take in an empty system",
			goals: []goal{within(time.Second)}, setup: neighbour},
		{name: "sandbox-start", what: "how much longer /bin/true takes in a sandbox with all parts, p95 of 100 that start " +
			"every 200 ms, than as a plain child; " +
			"the floor is the plain child",
			goals: []goal{within(30 * time.Millisecond)}, setup: sandboxStart(200 * time.Millisecond)},
		{name: "sandbox-start-burst", what: "the same with the starts one after the other, so that no shim waits for them",
			goals: []goal{within(60 * time.Millisecond)}, setup: sandboxStart(0)},
		{name: "plan-5000", what: "Temporal: one step of a run of 5,000 steps against one of a run of 100, both in " +
			"layers of 50",
			goals: []goal{atMost(1.5)}, setup: plan5000},
		{name: "runs-in-flight", what: "Temporal: the memory of one worker with 1,000 runs in flight at once, with the " +
			"store and all that asks for the runs, against 1 GiB",
			goals: []goal{atMost(1)}, unit: "bytes", setup: runsInFlight},
		{name: "fold-event", what: "folding one event into a run of 1,000 steps, by 100 at a time, against a run of 10",
			goals: []goal{atMost(3)}, setup: foldEvent},
		{name: "authz-decision", what: "a decision with 100,000 principals and 10,000 policy rows against one with " +
			"10,000 and 1,000",
			goals: []goal{atMost(2)}, setup: authzDecision},

		{name: "fan-out", what: "PostgreSQL, 1 ms: 100 executors Begin at once on one run, through the coalescer against " +
			"a transaction each",
			goals: []goal{atLeast(4)}, setup: fanOut},
		{name: "coalesce-lone", what: "PostgreSQL: one appender, p50, through the coalescer against without",
			goals: []goal{atMost(1.1)}, setup: coalesceLone},
		{name: "coalesce-others", what: "PostgreSQL, 1 ms: p99 of 400 appends/s to 8 runs through the coalescer while " +
			"control transactions hold a ninth, " +
			"that is appended to, for 40 ms each, against nobody holding it",
			goals: []goal{atMost(1.3)}, setup: coalesceOthers},

		{name: "batch-of-16", what: "PostgreSQL, 1 ms: events/s of one workflow that appends by 16 against one by one",
			goals: []goal{atLeast(8)}, setup: batchOf16},
		{name: "appenders-32", what: "PostgreSQL, 1 ms: events/s of 32 appenders on 32 runs against pgbench -M prepared, " +
			"32 clients, " +
			"one-row inserts into a table with the columns, primary key and unique key of event, no trigger and no other index",
			goals: []goal{atLeast(0.9)}, setup: appenders32},
		{name: "lone-append", what: "PostgreSQL: one appender, p50, against a prepared insert of the same row into a " +
			"table like event, with all its indexes and no trigger",
			goals: []goal{atMost(1.5)}, setup: loneAppend},
		{name: "append-at-200", what: "PostgreSQL, 1 ms: p99 of 200 appends/s to 20 runs; the floor is a prepared insert " +
			"of the same row at that pace",
			goals: []goal{within(100 * time.Millisecond)}, setup: appendAt200},

		{name: "admission", what: "PostgreSQL, 1 ms: startRun at the store, p50, with every limit, queue row and first " +
			"events, against a transaction of one round trip " +
			"that inserts a run, a queue row and an event into tables like them, with their indexes and no trigger",
			goals: []goal{atMost(1.5)}, setup: admissionPostgres},
		{name: "admission-sqlite", what: "SQLite, 1 ms: the same, the three rows by prepared statements",
			goals: []goal{atMost(1.5)}, setup: slowed("admission-sqlite", admissionSQLite)},
		{name: "starts-one-project", what: "PostgreSQL, 1 ms: startRun, p95, with 20 starters of one project, each of " +
			"which pauses 0.1 s on average, together about 190 a second, " +
			"against a lone starter who pauses a twentieth of that",
			goals: []goal{atMost(2)}, setup: startsOneProject},
		{name: "queue-pick", what: "PostgreSQL, 1 ms: one run admitted of 10^5 that wait in 1,000 tenants, p50, " +
			"against one of 10",
			goals: []goal{atMost(1.5)}, setup: queuePickPostgres},
		{name: "queue-pick-sqlite", what: "SQLite: the same", goals: []goal{atMost(1.5)}, setup: queuePickSQLite},

		{name: "sqlite-append", what: "SQLite: one appender, p50, against a raw insert of the same row",
			goals: []goal{atMost(6)}, setup: sqliteAppend},
		{name: "sqlite-appenders-32", what: "SQLite, 1 ms: events/s of 32 appenders on 32 runs against a transaction for " +
			"each event that only inserts it, " +
			"moves the head and marks the run dirty, by prepared statements on the same schema",
			goals: []goal{atLeast(10)}, setup: slowed("sqlite-appenders-32", sqliteAppenders32)},

		{name: "large-log", what: "PostgreSQL: an append to a run of 10^5 events in a log of 10^7, p50, against one to " +
			"an empty log",
			goals: []goal{atMost(1.3)}, setup: largeLog},
		{name: "sqlite-large-log", what: "SQLite: an append to a run of 10^5 events in a log of 10^6, p50, against one to " +
			"an empty log",
			goals: []goal{atMost(1.3)}, setup: sqliteLargeLog},

		{name: "list-page", what: "PostgreSQL: a page of 10^6 runs, p50, against one of 10^3: the worst of six, first, " +
			"last and in the middle, both ways",
			goals: []goal{atMost(1.5)}, setup: postgresLists(pageQuestions())},
		{name: "list-filters", what: "PostgreSQL: a page of a filter of 10^6 runs, p50, against one of 10^3: the worst " +
			"of 23 filters",
			goals: []goal{atMost(1.5)}, setup: postgresLists(filterQuestions())},
		{name: "sqlite-list-page", what: "SQLite: a page of 10^6 runs, p50, against one of 10^3: the worst of six, first, " +
			"last and in the middle, both ways",
			goals: []goal{atMost(1.5)}, setup: sqliteLists(pageQuestions())},
		{name: "sqlite-list-filters", what: "SQLite: a page of a filter of 10^6 runs, p50, against one of 10^3: the worst " +
			"of 23 filters",
			goals: []goal{atMost(1.5)}, setup: sqliteLists(filterQuestions())},

		{name: "save-step", what: "PostgreSQL: saving one changed step of a run of 1,000 steps, p50, against one of " +
			"a run of 10",
			goals: []goal{atMost(1.2)}, setup: saveStep},
		{name: "sqlite-save-step", what: "SQLite: saving one changed step of a run of 1,000 steps, p50, against one of " +
			"a run of 10",
			goals: []goal{atMost(1.2)}, setup: sqliteSaveStep},

		{name: "bus-receipt", what: "PostgreSQL and Redis: commit to receipt from the bus, p99, at 1,000 appends/s over " +
			"100 runs; the floor is the bus alone, " +
			"PUBLISH to receipt at that pace under those appends, without a projector",
			goals: []goal{within(10 * time.Millisecond), atMost(3).called("bus-receipt-ratio")}, setup: busReceipt},

		{name: "frame-prepared", what: "server CPU of one shared frame of 20 steps, 1,000 viewers of one run, the next " +
			"update when all have the last, " +
			"from the message off the bus to the socket, without store and projector; against gorilla's PreparedMessage of " +
			"the same bytes, a goroutine for each socket",
			goals: []goal{atMost(1.2)}, setup: apart("frame-prepared", framePrepared)},
		{name: "frame-stock", what: "the same against the same resolvers behind gqlgen's own handler and websocket transport",
			goals: []goal{atMost(0.02)}, setup: apart("frame-stock", againstStock(1, 100, 8))},
		{name: "viewers-1000-runs", what: "frames per second of server CPU, 1,000 viewers of 1,000 runs, which share " +
			"nothing, against gqlgen's own handler and transport; as frame-stock",
			goals: []goal{atLeast(10)}, setup: apart("viewers-1000-runs", againstStock(fewViewers, 20, 6))},
		{name: "viewers-1000", what: "SQLite and Redis, server on one core: commit to receive, p99, 1,000 viewers of one " +
			"run, 5 updates/s; " +
			"the floor is centrifuge, publish to receive of the same payload at that pace",
			goals: []goal{within(15 * time.Millisecond), atMost(1.5).called("viewers-1000-centrifuge")},
			setup: apart("viewers-1000", receiptsOf(fewViewers, 20, time.Second/5, 2))},
		{name: "viewers-10000", what: "the same with 10,000 viewers, 1 update/s, and the server on every core, which what " +
			"loads it has too; one that is disconnected is an error; " +
			"the floor is a server there that does nothing but send the same bytes, as websocket.PreparedMessage",
			goals: []goal{atMost(1.2)}, setup: apart("viewers-10000", tenThousand)},
		{name: "idle-viewer", what: "resident memory of a server for each of 5,000 viewers of one run after the first " +
			"100, idle, after a collection, without the kernel's; the floor is centrifuge",
			goals: []goal{within(12 * 1024), atMost(0.5).called("idle-viewer-centrifuge")}, unit: "bytes",
			setup: apart("idle-viewer", idleViewer)},
		{name: "delta-1000", what: "server CPU of one update in DELTA mode of a run of 1,000 steps, one viewer, from the " +
			"message off the bus to the socket, against a run of 10",
			goals: []goal{atMost(1.5)}, setup: apart("delta-1000", delta(func(s spent) int64 { return int64(s.cpu) }))},
		{name: "delta-1000-bytes", what: "the same: bytes of the frame", goals: []goal{atMost(1.5)}, unit: "bytes",
			setup: apart("delta-1000-bytes", delta(func(s spent) int64 { return s.bytes }))},
		{name: "list-json", what: "requests per second of server CPU: a list of 50 runs with 20 steps each, from memory, " +
			"four clients, " +
			"against net/http and encoding/json writing the same bytes",
			goals: []goal{atLeast(0.5)}, setup: apart("list-json", listJSON)},
		{name: "pause-to-paused", what: "`dvt dev` with Temporal, idle: PAUSE mutation to the frame that says PAUSED, " +
			"p95 of 40; " +
			"the floor is a bare workflow, from its signal to the activity that it starts, p95",
			goals: []goal{within(50 * time.Millisecond)}, setup: pauseToPaused},
		{name: "query-flood-neighbour", what: "`dvt dev`: a list of runs of one tenant, p99 of 200, while 20 clients of " +
			"another ask for a plan of 3 MiB, " +
			"ten by 49 aliases and ten by the most that are permitted; the floor is the idle server",
			goals: []goal{within(time.Second)}, setup: queryFloodNeighbour},
		{name: "query-flood-memory", what: "the same: by how much the resident memory of the server grows at its highest; " +
			"the floor is the memory before",
			goals: []goal{within(200 << 20)}, unit: "bytes", setup: queryFloodMemory},

		{name: "ui-header", what: "UI, CPU slowed 4x, 10 Mbit/s, 40 ms: from the address to the header of a run of 5,000 " +
			"steps; the floor is a run of 5",
			goals: []goal{within(2 * time.Second)}, setup: browser("ui-header")},
		{name: "ui-mosaic", what: "the same: to its mosaic; the floor is the graph of a run of 5",
			goals: []goal{within(2500 * time.Millisecond)}, setup: browser("ui-mosaic")},
		{name: "ui-runs-lcp", what: "the same: to the largest picture of the runs page, 60 runs; the floor is its " +
			"first picture",
			goals: []goal{within(1800 * time.Millisecond)}, setup: browser("ui-runs-lcp")},
		{name: "ui-runs-inp", what: "UI, CPU slowed 4x: from an input to the picture that answers it, on that page, the " +
			"longest of 30; the floor is a key that does nothing",
			goals: []goal{within(200 * time.Millisecond)}, setup: browser("ui-runs-inp")},
		{name: "ui-live-1000", what: "UI: the main thread's time in a second, a run of 1,000 steps, 10 updates/s of 20 " +
			"steps added to its stream, 20 s each time; the floor is the page at rest",
			goals: []goal{within(80 * time.Millisecond)}, setup: browser("ui-live-1000")},
		{name: "ui-live-5000", what: "UI: the same of a run of 5,000 steps against 1,000",
			goals: []goal{atMost(1.3)}, setup: browser("ui-live-5000")},
		{name: "ui-live-frames", what: "UI: from frame to frame, p99, a run of 1,000 steps under those updates; the floor " +
			"is the page at rest",
			goals: []goal{within(34 * time.Millisecond)}, setup: browser("ui-live-frames")},
		{name: "ui-layout", what: "UI: the layout of 5,000 steps, by a worker, as the page waits for it; the floor is " +
			"1,100 steps",
			goals: []goal{within(400 * time.Millisecond)}, setup: browser("ui-layout")},
		{name: "ui-graph-mount", what: "UI: from the click to all of 5,000 steps drawn as a graph, its layout kept; the " +
			"floor is the graph around one step",
			goals: []goal{within(300 * time.Millisecond)}, setup: browser("ui-graph-mount")},
		{name: "ui-graph-pan", what: "UI: from frame to frame, p95, while that graph is dragged; the floor is the " +
			"page at rest",
			goals: []goal{within(24 * time.Millisecond)}, setup: browser("ui-graph-pan")},
		{name: "ui-timeline-scroll", what: "UI: the same while a timeline of 5,000 rows is scrolled",
			goals: []goal{within(24 * time.Millisecond)}, setup: browser("ui-timeline-scroll")},
		{name: "ui-dialog", what: "UI: from the click on an action to its dialog, p95 of 20; the floor is the fastest",
			goals: []goal{within(100 * time.Millisecond)}, setup: browser("ui-dialog")},
		{name: "ui-preview", what: "UI: the same to what the server says it would do, p95 of 20; the floor is the fastest",
			goals: []goal{within(300 * time.Millisecond)}, setup: browser("ui-preview")},
		{name: "ui-log-error", what: "UI: from the key to the line of the error, at the end of a log of 1,000,000 lines; " +
			"the floor is a log of 10",
			goals: []goal{within(time.Second)}, setup: browser("ui-log-error")},
		{name: "ui-log-find", what: "UI: from the last letter to the number of matches in all of that log and the first " +
			"of them shown; the floor is a log of 10",
			goals: []goal{within(2 * time.Second)}, setup: browser("ui-log-find")},
	}
}
