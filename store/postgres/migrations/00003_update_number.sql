-- +goose Up
-- update_number is that of the newest update of the row, 0 if none had a number.
ALTER TABLE threads ADD COLUMN update_number bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE threads DROP COLUMN update_number;
