-- +goose Up
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
