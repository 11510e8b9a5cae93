package deploying

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestShared: what the workers of all builds share follows the current build: the embedder of documents, and the retention.
func TestShared(t *testing.T) {
	t.Parallel()
	s := documents.NewEmbeddings(t)
	o := documents.Librarians(harness.Options{})
	o.Configure = documents.Embeds(t, s, "one")
	f := newFleet(t, o)
	f.look = time.Second
	embeds := func(model string) func(*threadmill.Config) {
		return func(cfg *threadmill.Config) {
			documents.Embeds(t, s, model)(cfg)
			cfg.Retention = threadmill.Retention{ToolLogs: threadmill.MinToolLogRetention}
		}
	}
	embedded := func(by string) {
		t.Helper()
		require.Eventually(t, func() bool {
			index, err := f.Store.KnowledgeIndex(f.Ctx(), f.TaskQueue)
			return err == nil && index.Chunks > 0 && len(index.Embedders) == 1 &&
				index.Embedders[0].Name == by && index.Embedders[0].Chunks == index.Chunks
		}, testenv.Patience, testenv.Tick, by)
	}
	f.Start("1", false)
	f.Switch("1")
	thread := f.Open("assistant")
	f.Moved(thread, "1")
	require.Equal(t, store.KnowledgeIndexed, documents.Ingested(f.Harness, thread, "handbook.md", documents.Handbook).Status)
	embedded("vectors/one")

	var looks atomic.Int64
	f.start("2", client.Options{ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if strings.HasSuffix(method, "/DescribeWorkerDeployment") {
				looks.Add(1)
			}
			return err
		},
	)}}}, embeds("two"))
	require.Eventually(t, func() bool { return looks.Load() > 1 }, testenv.Patience, testenv.Tick)
	for _, id := range []string{job.EmbedWorkflowID(f.TaskQueue), job.RetainWorkflowID(f.TaskQueue)} {
		_, err := f.Temporal.DescribeWorkflow(f.Ctx(), id, "")
		require.ErrorAs(t, err, new(*serviceerror.NotFound), "%s: the build has seen that another one is current", id)
	}

	f.Switch("2")
	embedded("vectors/two")
	require.Eventually(t, func() bool {
		_, err := f.Temporal.DescribeWorkflow(f.Ctx(), job.RetainWorkflowID(f.TaskQueue), "")
		return err == nil
	}, testenv.Patience, testenv.Tick)

	f.Switch("1")
	embedded("vectors/one")
}
