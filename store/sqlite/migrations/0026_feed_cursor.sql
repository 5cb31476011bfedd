-- The positions of consumers of the feed, such as the exporter of traces.

-- +goose Up

CREATE TABLE feed_cursor (
    name        TEXT PRIMARY KEY,
    owner       TEXT NOT NULL,
    generation  INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    position    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
