-- +goose Up
-- content is NULL of what is deleted: versions go on when it is created again.
CREATE TABLE documents (
    namespace  text        NOT NULL COLLATE "C",
    kind       text        NOT NULL COLLATE "C",
    name       text        NOT NULL COLLATE "C",
    version    integer     NOT NULL,
    content    json,
    changed_by text        NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, kind, name)
);

-- +goose Down
DROP TABLE documents;
