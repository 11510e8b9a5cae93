-- +goose Up
-- Retention deletes the logs of calls that ended long ago.
CREATE INDEX tool_logs_by_end ON tool_logs (namespace, finished_at);

-- +goose Down
DROP INDEX tool_logs_by_end;
