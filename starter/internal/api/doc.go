// Package api is a small client of the HTTP API: stored messages and the live
// stream of a thread. Everything else the command line asks Temporal directly.
//
// [Client.Watch] survives cuts: it connects again with the id of the last event
// that it has delivered, so that each event is delivered once and in order. An
// event that was cut off half-way does not count as delivered.
package api
