// Package embedded runs a whole Temporal server, and optionally its Web UI, in the calling process.
//
// It needs no other processes or downloads:
//
//	srv, err := embedded.Start(ctx, embedded.Config{Addr: "127.0.0.1:0"})
//	if err != nil { … }
//	defer srv.Stop()
//	c, err := client.Dial(client.Options{HostPort: srv.Addr(), Namespace: srv.Namespace()})
//
// Without a DataDir all state is in memory and is lost at [Server.Stop]. With one it is in a SQLite
// file in write-ahead mode: acknowledged writes survive a kill -9 of the process.
//
// When [Start] returns, the frontend responds, the namespace accepts workflows, and the configured
// search attributes can be set and queried. Several servers can run in one process. Apart from the
// two configured addresses, everything is bound to free ports on 127.0.0.1.
//
// It is for development and tests: one SQLite connection serializes all writes, there is no
// authentication, and only the server version that wrote a data folder can read it.
package embedded
