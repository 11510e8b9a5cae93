-- +goose Up
-- Times are microseconds since 1970, UTC.
CREATE TABLE threads (
    namespace  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    title      TEXT    NOT NULL DEFAULT '',
    status     TEXT    NOT NULL DEFAULT 'open',
    agents     TEXT    NOT NULL DEFAULT '[]',
    metadata   TEXT,
    head       INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT;

CREATE INDEX threads_by_activity ON threads (namespace, updated_at DESC, id DESC);

CREATE TABLE records (
    namespace       TEXT    NOT NULL,
    thread_id       TEXT    NOT NULL,
    seq             INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    type            TEXT    NOT NULL,
    trace_id        TEXT    NOT NULL,
    parent_event_id TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    payload         TEXT    NOT NULL,
    PRIMARY KEY (namespace, thread_id, seq),
    UNIQUE (namespace, thread_id, id)
) STRICT;

CREATE TABLE tool_logs (
    namespace    TEXT    NOT NULL,
    thread_id    TEXT    NOT NULL,
    tool_call_id TEXT    NOT NULL,
    tool_name    TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    trace_id     TEXT    NOT NULL,
    input        TEXT    NOT NULL,
    output       TEXT,
    status       TEXT    NOT NULL,
    attempt      INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    finished_at  INTEGER,
    PRIMARY KEY (namespace, thread_id, tool_call_id)
) STRICT;

-- +goose Down
DROP TABLE tool_logs;
DROP TABLE records;
DROP TABLE threads;
