-- +goose Up
-- Times are microseconds since 1970, UTC.
-- update_number is the number of the newest update of the row, 0 if none had a number.
CREATE TABLE threads (
    namespace     TEXT NOT NULL,
    id            TEXT NOT NULL,
    title         TEXT NOT NULL DEFAULT '',
    status        TEXT NOT NULL DEFAULT 'open',
    activity      TEXT NOT NULL DEFAULT 'idle',
    agents        TEXT NOT NULL DEFAULT '[]',
    metadata      TEXT,
    head          INTEGER NOT NULL DEFAULT 0,
    update_number INTEGER NOT NULL DEFAULT 0,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT;

CREATE INDEX threads_by_update ON threads (namespace, updated_at DESC, id DESC);
CREATE INDEX threads_by_activity ON threads (namespace, status, activity, updated_at DESC, id DESC);

-- What the thread has begun and not ended: its activity is derived from it. id is an event or a tool
-- call, event_id the event whose turn it belongs to.
CREATE TABLE thread_marks (
    namespace TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    kind      TEXT NOT NULL,
    id        TEXT NOT NULL,
    event_id  TEXT NOT NULL,
    PRIMARY KEY (namespace, thread_id, kind, id)
) STRICT, WITHOUT ROWID;

-- event_id is the event whose turn the record belongs to, empty outside turns.
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
    event_id        TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, thread_id, seq),
    UNIQUE (namespace, thread_id, id)
) STRICT;

CREATE INDEX records_by_event ON records (namespace, thread_id, event_id, seq);

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

-- name_key is the name without regard to case, definition NULL of what is deleted.
CREATE TABLE agent_versions (
    namespace  TEXT    NOT NULL,
    name_key   TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    newest     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    change     TEXT    NOT NULL,
    definition TEXT,
    changed_by TEXT    NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name_key, version),
    UNIQUE (namespace, seq)
) STRICT;

CREATE UNIQUE INDEX agent_versions_newest ON agent_versions (namespace, name_key) WHERE newest;

-- name_key is the name without regard to case, roles a JSON array. Times that are NULL are never.
CREATE TABLE api_keys (
    id             TEXT    NOT NULL PRIMARY KEY,
    namespace      TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    name_key       TEXT    NOT NULL,
    roles          TEXT    NOT NULL,
    hash           TEXT    NOT NULL,
    previous_hash  TEXT    NOT NULL DEFAULT '',
    previous_until INTEGER,
    created_at     INTEGER NOT NULL,
    created_by     TEXT    NOT NULL,
    expires_at     INTEGER,
    rotated_at     INTEGER,
    revoked_at     INTEGER,
    revoked_by     TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE UNIQUE INDEX api_keys_by_name ON api_keys (namespace, name_key) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_listed ON api_keys (namespace, revoked_at IS NOT NULL, name_key, created_at);

-- +goose Down
DROP TABLE api_keys;
DROP TABLE agent_versions;
DROP TABLE tool_logs;
DROP TABLE records;
DROP TABLE threads;
