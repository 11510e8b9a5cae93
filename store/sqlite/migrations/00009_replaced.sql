-- +goose Up
-- How often payloads of the thread's records were replaced. Programs keep what they have read of a thread as long as this
-- number stays the same.
ALTER TABLE threads ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;

-- +goose StatementBegin
CREATE TRIGGER records_replaced AFTER UPDATE OF payload ON records
BEGIN UPDATE threads SET replaced = replaced + 1 WHERE namespace = NEW.namespace AND id = NEW.thread_id; END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER records_replaced;
ALTER TABLE threads DROP COLUMN replaced;
