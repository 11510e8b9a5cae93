// Package api is a small client of the HTTP API, for stored messages and the live stream of a
// thread. The command line asks Temporal for everything else.
//
// [Client.Watch] survives lost connections: it connects again with the id of the last event that it
// has delivered, so that each event is delivered once and in order. An incomplete event does not
// count as delivered.
package api
