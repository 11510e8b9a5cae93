-- +goose Up
-- How often payloads of the thread's records were replaced. Programs keep what they have read of a thread as long as this
-- number stays the same.
ALTER TABLE threads ADD COLUMN replaced bigint NOT NULL DEFAULT 0;

-- +goose StatementBegin
CREATE FUNCTION threadmill_count_replaced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE threads SET replaced = replaced + 1 WHERE namespace = NEW.namespace AND id = NEW.thread_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER records_replaced AFTER UPDATE OF payload ON records FOR EACH ROW EXECUTE FUNCTION threadmill_count_replaced();

-- +goose Down
DROP TRIGGER records_replaced ON records;
DROP FUNCTION threadmill_count_replaced();
ALTER TABLE threads DROP COLUMN replaced;
