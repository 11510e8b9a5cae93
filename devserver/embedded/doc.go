// Package embedded runs a whole Temporal server, and optionally its Web UI, in the calling process.
//
// There is nothing to download or to start beside it:
//
//	srv, err := embedded.Start(ctx, embedded.Config{Addr: "127.0.0.1:0"})
//	if err != nil { … }
//	defer srv.Stop()
//	c, err := client.Dial(client.Options{HostPort: srv.Addr(), Namespace: srv.Namespace()})
//
// Without a DataDir all state lives in memory and goes with [Server.Stop]. With one it lives in a SQLite
// file in write-ahead mode: what the server has acknowledged survives a kill -9 of the process.
//
// When [Start] returns, the frontend answers, the namespace takes workflows and the search attributes of
// the configuration can be set and queried. Several servers can run in one process. Apart from the two
// addresses in the configuration, everything is bound to 127.0.0.1 and to free ports.
//
// It is made for development and tests: one SQLite connection serialises all writes, there is no
// authentication, and a data folder is only readable by the server version that wrote it.
package embedded
