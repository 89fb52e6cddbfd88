-- In which form an endpoint gets its events: the payload as it came, or a CloudEvent around it. A version of an endpoint keeps
-- it, because an attempt's content type and length follow from it. The defaults are constants, so no row is rewritten.
-- +goose Up
CREATE TYPE endpoint_format AS ENUM ('raw', 'cloudevents');
ALTER TABLE endpoints ADD COLUMN format endpoint_format NOT NULL DEFAULT 'raw';
ALTER TABLE endpoint_versions ADD COLUMN format endpoint_format NOT NULL DEFAULT 'raw';

-- +goose Down
ALTER TABLE endpoint_versions DROP COLUMN format;
ALTER TABLE endpoints DROP COLUMN format;
DROP TYPE endpoint_format;
