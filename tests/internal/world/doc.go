// Package world builds what the end-to-end tests run in: an embedded Temporal
// server, a store, a live stream, a real HTTP server that stands in for the model's
// provider, a worker and the API.
package world
