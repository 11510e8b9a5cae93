package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
)

// usage is what the processes have used since they started, or between two moments.
type usage struct {
	// worker is the CPU time of this process: workers, API, viewers and clients. temporal is that of
	// the server, if it has a process of its own.
	worker, temporal time.Duration

	// objects and bytes were allocated in this process.
	objects, bytes uint64

	// calls are those to Temporal, without long polls and heartbeats, whose number depends on time. storeCalls are
	// those to the store.
	calls, storeCalls int64
}

func (u usage) since(v usage) usage {
	return usage{
		u.worker - v.worker, u.temporal - v.temporal, u.objects - v.objects, u.bytes - v.bytes,
		u.calls - v.calls, u.storeCalls - v.storeCalls,
	}
}

// usage returns what has been used so far.
func (w *world) usage() (u usage, err error) {
	if w.server != nil {
		if u.temporal, err = w.server.cpu(); err != nil {
			return u, err
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.objects, u.bytes = memory.Mallocs, memory.TotalAlloc
	u.calls, u.storeCalls = w.calls.Load(), w.storeCalls.Load()
	u.worker, err = processCPU()
	return u, err
}

// processCPU returns the CPU time of this process, user and system.
func processCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("reading the CPU time of the process: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// countCalls counts calls to Temporal.
func countCalls(n *atomic.Int64) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		name := method[strings.LastIndex(method, "/")+1:]
		if !strings.HasPrefix(name, "Poll") && !strings.HasSuffix(name, "Heartbeat") {
			n.Add(1)
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}
}

// countedStore counts the calls that turns make.
type countedStore struct {
	teststore.Store
	calls *atomic.Int64
}

func (s *countedStore) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	s.calls.Add(1)
	return s.Store.Append(ctx, key, b)
}

func (s *countedStore) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	s.calls.Add(1)
	return s.Store.Records(ctx, key, q)
}

func (s *countedStore) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	s.calls.Add(1)
	return s.Store.RecordsByID(ctx, key, ids...)
}

func (s *countedStore) Thread(ctx context.Context, key store.Key) (store.Thread, error) {
	s.calls.Add(1)
	return s.Store.Thread(ctx, key)
}

func (s *countedStore) ToolLog(ctx context.Context, key store.Key, toolCallID string) (store.ToolLog, error) {
	s.calls.Add(1)
	return s.Store.ToolLog(ctx, key, toolCallID)
}

func (s *countedStore) Agent(ctx context.Context, namespace, name string) (store.AgentVersion, error) {
	s.calls.Add(1)
	return s.Store.Agent(ctx, namespace, name)
}
