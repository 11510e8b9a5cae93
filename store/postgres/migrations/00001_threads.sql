-- +goose Up
-- Payloads are json, not jsonb: jsonb refuses \u0000, and reorders what it keeps.
-- Ids compare by code point ("C"), whatever the database's language.
CREATE TABLE threads (
    namespace  text        NOT NULL COLLATE "C",
    id         text        NOT NULL COLLATE "C",
    title      text        NOT NULL DEFAULT '',
    status     text        NOT NULL DEFAULT 'open',
    agents     text[]      NOT NULL DEFAULT '{}',
    metadata   json,
    head       bigint      NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, id)
);

CREATE INDEX threads_by_activity ON threads (namespace, updated_at DESC, id DESC);

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
    PRIMARY KEY (namespace, thread_id, seq),
    UNIQUE (namespace, thread_id, id)
);

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

-- +goose Down
DROP TABLE tool_logs;
DROP TABLE records;
DROP TABLE threads;
