-- The first characters of the secrets of API tokens, by which people tell tokens apart.

-- +goose Up

-- Empty for tokens of earlier versions and for sessions.
ALTER TABLE api_token ADD COLUMN prefix TEXT NOT NULL DEFAULT '';
UPDATE meta SET value = '20' WHERE name = 'compatible_from';
