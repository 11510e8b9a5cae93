-- +goose Up
-- tokens are those of the thread's model calls, in and out. Programs of the previous version do not count them.
ALTER TABLE threads ADD COLUMN tokens bigint NOT NULL DEFAULT 0;

UPDATE threads SET tokens = coalesce((
    SELECT sum((r.payload -> 'usage' ->> 'inputTokens')::bigint + (r.payload -> 'usage' ->> 'outputTokens')::bigint) FROM records r
    WHERE r.namespace = threads.namespace AND r.thread_id = threads.id AND r.type = 'llm_call'), 0);

-- +goose Down
ALTER TABLE threads DROP COLUMN tokens;
