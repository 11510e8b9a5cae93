// Package testenv provides PostgreSQL and NATS servers to tests.
//
// A server comes from the environment (THREADMILL_TEST_DATABASE_URL, THREADMILL_TEST_NATS_URL).
// Otherwise installed binaries are started on a loopback port, at most once per test binary; the
// server stops when the test binary ends, however it ends. Without either, the test is skipped,
// unless THREADMILL_REQUIRE names the missing server ("postgres", "nats" or both, separated by a
// comma): then the test fails.
//
// All tests of a binary share a server, and all binaries share one from the environment, so tests
// need unique names: see [Name].
package testenv
