-- +goose Up
-- since is when the mark was made. Programs of the previous version do not know it. Marks that were there before have the time
-- of the thread's last change.
CREATE TABLE thread_marks_with_time (
    namespace TEXT    NOT NULL,
    thread_id TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    event_id  TEXT    NOT NULL,
    since     INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    PRIMARY KEY (namespace, thread_id, kind, id)
) STRICT, WITHOUT ROWID;

INSERT INTO thread_marks_with_time (namespace, thread_id, kind, id, event_id, since)
SELECT m.namespace, m.thread_id, m.kind, m.id, m.event_id, t.updated_at FROM thread_marks m JOIN threads t ON t.namespace = m.namespace AND t.id = m.thread_id;

DROP TABLE thread_marks;
ALTER TABLE thread_marks_with_time RENAME TO thread_marks;

-- Most marks are of running turns and end soon: the index has only those that lists are ordered by.
CREATE INDEX thread_marks_by_time ON thread_marks (namespace, kind, since, thread_id) WHERE kind = 'waiting' OR kind = 'failing';

-- +goose Down
DROP INDEX thread_marks_by_time;
ALTER TABLE thread_marks DROP COLUMN since;
