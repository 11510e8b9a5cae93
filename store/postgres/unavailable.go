package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/threadmill/threadmill/store"
)

// classify marks errors of an unreachable server as [store.ErrUnavailable], and returns [store.ErrErased] for what an erased
// thread refuses.
func classify(err error) error {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok && server.Code == threadErased {
		return store.ErrErased
	}
	if unavailable(err) {
		return store.UnavailableBecause(reason(err), err)
	}
	return err
}

// Error codes of PostgreSQL, and of ours.
const (
	readOnly = "25006"
	diskFull = "53100"

	threadErased = "TM001" // of the triggers of erased threads
)

func reason(err error) store.Reason {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return ""
	}
	switch server.Code {
	case diskFull:
		return store.ReasonFull
	case readOnly:
		return store.ReasonReadOnly
	}
	return ""
}

func unavailable(err error) bool {
	var (
		server  *pgconn.PgError
		connect *pgconn.ConnectError
		network net.Error
	)
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &connect):
		return true
	case errors.As(err, &server):
		// Lost connections, too many connections, a full disk, a shutdown, and a server that is a replica now.
		return server.Code == readOnly || strings.HasPrefix(server.Code, "08") || strings.HasPrefix(server.Code, "53") || strings.HasPrefix(server.Code, "57P")
	}
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}
