// Package testserver starts real servers for tests: PostgreSQL, Redis, the Temporal dev server, and dvt itself as a
// binary.
//
// The package has three guarantees. A test fails when its server is not installed, with a message that says how to
// install it; no test is skipped. Servers listen on loopback only and keep their files under TMPDIR. When the test
// process ends, even by a kill, its servers end and their files are deleted: a watchdog process reads from a pipe and
// cleans up when the test process closes the other end.
//
// Proxies between servers and clients break the connections in ways that a test chooses.
//
// PostgreSQL and the Temporal server start once per test process, when the first test needs them. Redis starts once per
// test.
package testserver
