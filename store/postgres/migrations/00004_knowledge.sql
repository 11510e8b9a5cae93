-- +goose Up
-- collection is NULL of what is deleted: only its id and revision remain, so that no revision has the number of another.
CREATE TABLE knowledge_documents (
    namespace      text        NOT NULL COLLATE "C",
    id             text        NOT NULL COLLATE "C",
    collection     text        COLLATE "C",
    source         text        NOT NULL DEFAULT '' COLLATE "C",
    title          text        NOT NULL DEFAULT '',
    metadata       json,
    status         text        NOT NULL DEFAULT '',
    error          text        NOT NULL DEFAULT '',
    revision       bigint      NOT NULL DEFAULT 0,
    indexed        bigint      NOT NULL DEFAULT 0,
    digest         text        NOT NULL DEFAULT '',
    indexed_digest text        NOT NULL DEFAULT '',
    format         text        NOT NULL DEFAULT '',
    bytes          bigint      NOT NULL DEFAULT 0,
    chunks         bigint      NOT NULL DEFAULT 0,
    thread_id      text        NOT NULL DEFAULT '',
    requested_by   text        NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, id)
);

CREATE INDEX knowledge_documents_by_source ON knowledge_documents (namespace, collection, source) WHERE collection IS NOT NULL;

CREATE TABLE knowledge_contents (
    namespace  text   NOT NULL COLLATE "C",
    document   text   NOT NULL COLLATE "C",
    revision   bigint NOT NULL,
    name       text   NOT NULL,
    media_type text   NOT NULL,
    bytes      bytea  NOT NULL,
    PRIMARY KEY (namespace, document, revision)
);

-- lexemes are what is searched of a chunk, path is a list.
CREATE TABLE knowledge_chunks (
    id        bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text     NOT NULL COLLATE "C",
    document  text     NOT NULL COLLATE "C",
    revision  bigint   NOT NULL,
    index     bigint   NOT NULL,
    text      text     NOT NULL,
    overlap   bigint   NOT NULL,
    path      json     NOT NULL,
    page      bigint   NOT NULL,
    tokens    bigint   NOT NULL,
    context   text     NOT NULL,
    lexemes   tsvector NOT NULL,
    UNIQUE (namespace, document, revision, index)
);

-- The words of visible chunks and their collection, as numbers that no two namespaces share. length is how many words a chunk
-- has. For each of the words, counts has the first 5 bytes of its number and how often the chunk has it, in order.
CREATE TABLE knowledge_words (
    chunk      bigint   PRIMARY KEY REFERENCES knowledge_chunks ON DELETE CASCADE,
    namespace  text     NOT NULL COLLATE "C",
    collection text     NOT NULL COLLATE "C",
    length     bigint   NOT NULL,
    counts     bytea    NOT NULL,
    words      bigint[] NOT NULL
);

-- Large rows keep counts, which searches read, and move words out, which only the index reads.
ALTER TABLE knowledge_words ALTER counts SET STORAGE MAIN, ALTER words SET STORAGE EXTERNAL;

-- Without fastupdate, searches read no list of what the index has yet to add, of any namespace.
CREATE INDEX knowledge_words_by_word ON knowledge_words USING gin (words) WITH (fastupdate = off);

-- How many visible chunks of a namespace have a word, or belong to a collection.
CREATE TABLE knowledge_word_chunks (
    namespace text   NOT NULL COLLATE "C",
    word      bigint NOT NULL,
    chunks    bigint NOT NULL,
    PRIMARY KEY (namespace, word)
) WITH (fillfactor = 70);

-- How many visible chunks a namespace has, and how many words they have. Whoever changes knowledge_word_chunks locks the
-- row first.
CREATE TABLE knowledge_indexes (
    namespace text   NOT NULL COLLATE "C" PRIMARY KEY,
    chunks    bigint NOT NULL,
    words     bigint NOT NULL
) WITH (fillfactor = 70);

-- +goose Down
DROP TABLE IF EXISTS knowledge_vectors;
DROP TABLE knowledge_indexes;
DROP TABLE knowledge_word_chunks;
DROP TABLE knowledge_words;
DROP TABLE knowledge_chunks;
DROP TABLE knowledge_contents;
DROP TABLE knowledge_documents;
