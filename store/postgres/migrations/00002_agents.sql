-- +goose Up
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

-- +goose Down
DROP TABLE agent_versions;
