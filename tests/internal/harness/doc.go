// Package harness builds the environment of end-to-end tests: an embedded Temporal server, a store, a
// live stream, a real HTTP server for the model's provider, a worker and the API.
package harness
