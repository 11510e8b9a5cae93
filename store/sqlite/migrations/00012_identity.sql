-- +goose Up
-- id tells this database from others. A copy has the same.
CREATE TABLE identity (
    id TEXT NOT NULL
) STRICT;

INSERT INTO identity (id) VALUES (lower(hex(randomblob(16))));

-- +goose Down
DROP TABLE identity;
