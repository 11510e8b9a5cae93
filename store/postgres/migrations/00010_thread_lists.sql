-- +goose Up
-- since is when the mark was made. Programs of the previous version do not know it. Marks that were there before have the time
-- of the thread's last change.
ALTER TABLE thread_marks ADD COLUMN since timestamptz NOT NULL DEFAULT now();

UPDATE thread_marks m SET since = t.updated_at FROM threads t WHERE t.namespace = m.namespace AND t.id = m.thread_id;

-- Most marks are of running turns and end soon: the index has only those that lists are ordered by.
CREATE INDEX thread_marks_by_time ON thread_marks (namespace, kind, since, thread_id) WHERE kind IN ('waiting', 'failing');

-- +goose Down
DROP INDEX thread_marks_by_time;
ALTER TABLE thread_marks DROP COLUMN since;
