-- +goose Up
-- event_id is the event whose turn the record belongs to, empty outside turns.
ALTER TABLE records ADD COLUMN event_id TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE records DROP COLUMN event_id;
