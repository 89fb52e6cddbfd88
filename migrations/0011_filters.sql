-- What an endpoint wants of the events whose type it subscribes to, and the catalogue of event types as it is shown.
-- +goose Up

-- A CEL expression over the event and its payload; null: all of them.
ALTER TABLE endpoints ADD COLUMN filter text CHECK (filter <> '');

-- json and not jsonb: a schema is shown in the order in which it was written, and nothing looks into it here.
ALTER TABLE event_types
    ALTER COLUMN schema TYPE json USING schema::json,
    ADD COLUMN id bigint;
-- Ids are made by the application; the few rows there may be were written by hand.
UPDATE event_types t SET id = n.place
  FROM (SELECT name, row_number() OVER (ORDER BY created_at, name) AS place FROM event_types) n WHERE n.name = t.name;
ALTER TABLE event_types
    ALTER COLUMN id SET NOT NULL,
    ADD CONSTRAINT event_types_id_key UNIQUE (id);

-- +goose Down
ALTER TABLE event_types
    DROP CONSTRAINT event_types_id_key, DROP COLUMN id, ALTER COLUMN schema TYPE jsonb USING schema::jsonb;
ALTER TABLE endpoints DROP COLUMN filter;
