// Package testenv gives tests the servers that they need: a PostgreSQL and a NATS.
//
// A server comes from the environment (THREADMILL_TEST_DATABASE_URL,
// THREADMILL_TEST_NATS_URL), or else from binaries found on the machine: then a
// private one is started on a loopback port, at most once per test binary, and ends
// with it, however it ends. Where there is neither, the test is skipped, unless
// THREADMILL_REQUIRE names what is missing ("postgres", "nats", or both, with a
// comma): then it fails.
//
// A server is shared by all tests of a binary, and one from the environment by all
// binaries, so tests keep apart by names of their own: see [Name].
package testenv
