-- Which binaries run on this schema. A binary that finds migrations here which it does not know, as one of the version before does
-- that is restarted in the middle of an upgrade, asks this table whether it may go on: it may if the newest migration that it knows is
-- `oldest` or a later one. A migration after which binaries before it cannot run sets `oldest` to its own number; one that does not
-- touch it says that they can. Binaries that know nothing of 0024 do not ask, and stop.
-- +goose Up
CREATE TABLE schema_compatibility (
    one    boolean PRIMARY KEY DEFAULT true CONSTRAINT schema_compatibility_one_row CHECK (one),
    oldest bigint  NOT NULL
);
INSERT INTO schema_compatibility (oldest) VALUES (24);

-- +goose Down
DROP TABLE schema_compatibility;
