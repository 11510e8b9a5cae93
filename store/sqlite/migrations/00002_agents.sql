-- +goose Up
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

-- +goose Down
DROP TABLE agent_versions;
