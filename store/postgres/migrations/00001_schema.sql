-- +goose Up
-- Payloads are json, not jsonb: jsonb refuses \u0000, and reorders what it keeps.
-- Ids compare by code point ("C"), whatever the database's language.
-- update_number is the number of the newest update of the row, 0 if none had a number.
CREATE TABLE threads (
    namespace     text NOT NULL COLLATE "C",
    id            text NOT NULL COLLATE "C",
    title         text NOT NULL DEFAULT '',
    status        text NOT NULL DEFAULT 'open',
    activity      text NOT NULL DEFAULT 'idle',
    agents        text[] NOT NULL DEFAULT '{}',
    metadata      json,
    head          bigint NOT NULL DEFAULT 0,
    update_number bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (namespace, id)
);

CREATE INDEX threads_by_update ON threads (namespace, updated_at DESC, id DESC);
CREATE INDEX threads_by_activity ON threads (namespace, status, activity, updated_at DESC, id DESC);

-- What the thread has begun and not ended: its activity is derived from it. id is an event or a tool
-- call, event_id the event whose turn it belongs to.
CREATE TABLE thread_marks (
    namespace text NOT NULL COLLATE "C",
    thread_id text NOT NULL COLLATE "C",
    kind      text NOT NULL,
    id        text NOT NULL COLLATE "C",
    event_id  text NOT NULL COLLATE "C",
    PRIMARY KEY (namespace, thread_id, kind, id)
);

-- event_id is the event whose turn the record belongs to, empty outside turns.
CREATE TABLE records (
    namespace       text        NOT NULL COLLATE "C",
    thread_id       text        NOT NULL COLLATE "C",
    seq             bigint      NOT NULL,
    id              text        NOT NULL COLLATE "C",
    type            text        NOT NULL,
    trace_id        text        NOT NULL,
    parent_event_id text        NOT NULL,
    created_at      timestamptz NOT NULL,
    payload         json        NOT NULL,
    event_id        text        NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, thread_id, seq),
    UNIQUE (namespace, thread_id, id)
);

CREATE INDEX records_by_event ON records (namespace, thread_id, event_id, seq);

CREATE TABLE tool_logs (
    namespace    text        NOT NULL COLLATE "C",
    thread_id    text        NOT NULL COLLATE "C",
    tool_call_id text        NOT NULL COLLATE "C",
    tool_name    text        NOT NULL,
    agent        text        NOT NULL,
    trace_id     text        NOT NULL,
    input        json        NOT NULL,
    output       json,
    status       text        NOT NULL,
    attempt      integer     NOT NULL,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz,
    PRIMARY KEY (namespace, thread_id, tool_call_id)
);

-- name_key is the name without regard to case, definition NULL of what is deleted.
CREATE TABLE agent_versions (
    namespace  text        NOT NULL COLLATE "C",
    name_key   text        NOT NULL COLLATE "C",
    version    integer     NOT NULL,
    newest     boolean     NOT NULL,
    seq        bigint      NOT NULL,
    name       text        NOT NULL,
    change     text        NOT NULL,
    definition json,
    changed_by text        NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, name_key, version),
    UNIQUE (namespace, seq)
);

CREATE UNIQUE INDEX agent_versions_newest ON agent_versions (namespace, name_key) WHERE newest;

-- name_key is the name without regard to case. Times that are NULL are never.
CREATE TABLE api_keys (
    id             text        NOT NULL COLLATE "C" PRIMARY KEY,
    namespace      text        NOT NULL COLLATE "C",
    name           text        NOT NULL,
    name_key       text        NOT NULL COLLATE "C",
    roles          text[]      NOT NULL,
    hash           text        NOT NULL,
    previous_hash  text        NOT NULL DEFAULT '',
    previous_until timestamptz,
    created_at     timestamptz NOT NULL,
    created_by     text        NOT NULL,
    expires_at     timestamptz,
    rotated_at     timestamptz,
    revoked_at     timestamptz,
    revoked_by     text        NOT NULL DEFAULT ''
);

CREATE UNIQUE INDEX api_keys_by_name ON api_keys (namespace, name_key) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_listed ON api_keys (namespace, (revoked_at IS NOT NULL), name_key, created_at);

-- +goose Down
DROP TABLE api_keys;
DROP TABLE agent_versions;
DROP TABLE tool_logs;
DROP TABLE records;
DROP TABLE threads;
