-- +goose Up
-- lowest_version is the lowest version of this schema that a program must know to use the database. A
-- migration that programs of the previous version cannot work with raises it.
CREATE TABLE compatibility (
    lowest_version INTEGER NOT NULL
) STRICT;

INSERT INTO compatibility (lowest_version) VALUES (2);

-- What Ping writes, to learn whether the disk has room.
CREATE TABLE write_probe (
    data BLOB NOT NULL
) STRICT;
