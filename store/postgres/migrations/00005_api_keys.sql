-- +goose Up
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
