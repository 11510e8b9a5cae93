package embedded

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/service/history/shard"

	"github.com/threadmill/threadmill/internal/testenv"
)

// TestQueuesBeforeTheirShard: errors of parts that wait for others to start are not logged, and others are.
func TestQueuesBeforeTheirShard(t *testing.T) {
	logs := &testenv.Buffer{}
	log := newServerLogger(slog.New(slog.NewTextHandler(logs, nil)), slog.LevelWarn).With(tag.ShardID(1))
	const msg = "Queue reader unable to retrieve tasks"
	log.Error(msg, tag.Error(shard.ErrShardStatusUnknown))
	log.Warn("error creating sdk client", tag.Error(errors.New("failed reaching server: Frontend is not healthy yet")))
	require.Empty(t, logs.String())
	log.Error(msg, tag.Error(errors.New("disk full")))
	require.Contains(t, logs.String(), "disk full")
}
