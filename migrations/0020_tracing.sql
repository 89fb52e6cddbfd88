-- In which trace an event was enqueued, and which endpoints are told of traces (docs/decisions/0037).
--
-- Nothing is rewritten or read: what is there is null, or a constant.
-- +goose Up
ALTER TABLE endpoints ADD COLUMN trace_context boolean NOT NULL DEFAULT false;
ALTER TABLE endpoints ADD CONSTRAINT endpoints_traced CHECK (kind = 'push' OR NOT trace_context) NOT VALID;
-- Trace id, span id and flags of W3C Trace Context: of the span in which it was enqueued, or of the producer's.
ALTER TABLE events ADD COLUMN trace bytea;
ALTER TABLE events ADD CONSTRAINT events_trace CHECK (octet_length(trace) = 25) NOT VALID;

-- +goose Down
ALTER TABLE events DROP COLUMN trace;
ALTER TABLE endpoints DROP COLUMN trace_context;
