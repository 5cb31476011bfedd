// Package testserver starts real servers for tests: PostgreSQL, Redis, the Temporal dev server, and dvt itself as a
// binary.
//
// It promises three things. A server that is missing on the machine fails the test with one sentence that says how to
// get it; nothing is skipped. Servers listen on loopback only and keep their files under TMPDIR. When the test process
// ends, however it ends, its servers end and their files go: a watchdog process holds the reading end of a pipe and
// cleans up when the writing end closes.
//
// Proxies stand before servers and break what lies between them and their clients.
//
// PostgreSQL and the Temporal server are started once for each test process, when the first test asks; Redis is started
// for each test.
package testserver
