-- The positions of consumers of the feed, such as the exporter of traces.

-- +goose Up
SET LOCAL lock_timeout = '3s';

CREATE TABLE feed_cursor (
  name        text COLLATE "C" PRIMARY KEY,
  owner       text COLLATE "C" NOT NULL,
  generation  bigint NOT NULL,
  lease_until timestamptz NOT NULL,
  position    text NOT NULL
);

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
