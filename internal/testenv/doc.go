// Package testenv provides PostgreSQL and NATS servers, npm packages and a browser to tests.
//
// A server comes from the environment (THREADMILL_TEST_DATABASE_URL, THREADMILL_TEST_NATS_URL).
// Otherwise installed binaries are started on a loopback port, at most once per test binary; the
// server stops when the test binary ends, however it ends. Without either, the test is skipped,
// unless THREADMILL_REQUIRE names what is missing ("postgres", "nats", "node", "browser", separated by
// commas): then the test fails. npm's packages and the browser are those that are installed.
//
// All tests of a binary share a server, and all binaries share one from the environment, so tests
// need unique names: see [Name].
package testenv
