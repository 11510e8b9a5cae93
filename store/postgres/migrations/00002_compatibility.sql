-- +goose Up
-- lowest_version is the lowest version of this schema that a program must know to use the database. A
-- migration that programs of the previous version cannot work with raises it.
CREATE TABLE compatibility (
    lowest_version bigint NOT NULL
);

INSERT INTO compatibility (lowest_version) VALUES (2);

-- The row that Ping writes, to learn whether the server accepts writes.
CREATE TABLE write_probe (
    id         integer PRIMARY KEY,
    written_at timestamptz NOT NULL
);

INSERT INTO write_probe (id, written_at) VALUES (1, now());
