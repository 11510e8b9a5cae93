-- +goose Up
-- id tells this database from others. A copy has the same.
CREATE TABLE identity (
    id text NOT NULL
);

INSERT INTO identity (id) VALUES (replace(gen_random_uuid()::text, '-', ''));

-- +goose Down
DROP TABLE identity;
