-- +goose Up
-- key is what other tables know a document by: it belongs to one namespace, and is never used again.
CREATE TABLE knowledge_documents (
    key            INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace      TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    collection     TEXT    NOT NULL,
    source         TEXT    NOT NULL,
    title          TEXT    NOT NULL,
    metadata       TEXT,
    status         TEXT    NOT NULL,
    error          TEXT    NOT NULL,
    revision       INTEGER NOT NULL,
    indexed        INTEGER NOT NULL,
    digest         TEXT    NOT NULL,
    indexed_digest TEXT    NOT NULL,
    format         TEXT    NOT NULL,
    bytes          INTEGER NOT NULL,
    chunks         INTEGER NOT NULL,
    thread_id      TEXT    NOT NULL,
    changed_by     TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    UNIQUE (namespace, id),
    UNIQUE (namespace, collection, source)
) STRICT;

-- The last revisions of documents that were deleted: no number is used twice.
CREATE TABLE knowledge_deleted (
    namespace TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    revision  INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE knowledge_contents (
    document   INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    media_type TEXT    NOT NULL,
    bytes      BLOB    NOT NULL,
    PRIMARY KEY (document, revision)
) STRICT;

-- A chunk is visible if its revision is the one that its document has indexed. path is a JSON array.
CREATE TABLE knowledge_chunks (
    id       INTEGER PRIMARY KEY,
    document INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    idx      INTEGER NOT NULL,
    overlap  INTEGER NOT NULL,
    page     INTEGER NOT NULL,
    tokens   INTEGER NOT NULL,
    path     TEXT    NOT NULL,
    context  TEXT    NOT NULL,
    text     TEXT    NOT NULL,
    UNIQUE (document, revision, idx)
) STRICT;

-- The namespaces that have chunks. Each has a full-text index of its own, the table knowledge_text_<id>, which comes and
-- goes with this row: how rare a word is in one namespace must not depend on another one.
CREATE TABLE knowledge_texts (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL UNIQUE
) STRICT;

-- The embedders that a namespace has vectors of.
CREATE TABLE knowledge_embedders (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    dimension INTEGER NOT NULL,
    UNIQUE (namespace, name)
) STRICT;

-- id is that of the embedder, shifted by 40 bits, plus that of the chunk: the vectors that a search compares are next to
-- each other. vector has the length 1, as little-endian float32.
CREATE TABLE knowledge_vectors (
    id       INTEGER PRIMARY KEY,
    document INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    vector   BLOB    NOT NULL
) STRICT;

CREATE INDEX knowledge_vectors_by_revision ON knowledge_vectors (document, revision);

-- +goose Down
DROP TABLE knowledge_vectors;
DROP TABLE knowledge_embedders;
DROP TABLE knowledge_texts;
DROP TABLE knowledge_chunks;
DROP TABLE knowledge_contents;
DROP TABLE knowledge_deleted;
DROP TABLE knowledge_documents;
