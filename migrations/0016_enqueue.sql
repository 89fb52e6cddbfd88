-- Enqueueing in the producer's own transaction: SELECT postrider.enqueue(tenant => 'acme', type => 'order.paid', payload => …).
-- Who gets the event is settled after the commit, by the one fan-out that there is (internal/intake): filters are not judged in the
-- database, and of schemas only what is plain. docs/decisions/0029 says why.
--
-- Building events_broken reads `events` once, which is locked meanwhile, by the ALTER TABLE before it against reading as well.
-- +goose Up

-- NULL: the fan-out is still to come.
ALTER TABLE events ALTER COLUMN delivery_ids DROP NOT NULL;
-- Of events that broke the schema of their type: they have no delivery that tells of a failure.
CREATE INDEX events_broken ON events (shard, tenant_id, id) WHERE skipped @> '[{"r": "schema"}]';

-- What is still to be fanned out, in the order in which it was enqueued. It stays as small as the fan-out is quick. Not by
-- bucket: the oldest of all are taken together, by one process at a time. Of several databases each would have its own.
CREATE TABLE events_unrouted (
    n            bigint   PRIMARY KEY, -- of enqueue_order
    shard        smallint NOT NULL,
    event_id     bigint   NOT NULL,
    endpoint_ids bigint[],             -- those that the producer named; null: all that want it
    -- One that breaks the fan-out waits apart from the others:
    tries        smallint NOT NULL DEFAULT 0,
    next_at      timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);
CREATE SEQUENCE enqueue_order;

-- What the function has to know of the configuration, as the processes that accept events have it.
CREATE TABLE intake_settings (
    name  text   PRIMARY KEY,
    value bigint NOT NULL
);

-- +goose StatementBegin
-- An id's 13 digits as internal/id reads them. What is no id gives a number that is below 0.
CREATE FUNCTION id_number(digits text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE WHEN length(digits) <> 13 OR ascii(digits) > 55 THEN -1 ELSE -- the first is 0 to 7
    ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 1, 1)) - 1)::bigint << 60)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 2, 1)) - 1)::bigint << 55)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 3, 1)) - 1)::bigint << 50)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 4, 1)) - 1)::bigint << 45)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 5, 1)) - 1)::bigint << 40)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 6, 1)) - 1)::bigint << 35)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 7, 1)) - 1)::bigint << 30)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 8, 1)) - 1)::bigint << 25)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 9, 1)) - 1)::bigint << 20)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 10, 1)) - 1)::bigint << 15)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 11, 1)) - 1)::bigint << 10)
    | ((strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 12, 1)) - 1)::bigint << 5)
    | (strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(digits, 13, 1)) - 1)::bigint END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- And as it spells them, without the prefix.
CREATE FUNCTION id_text(shard smallint, n bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 60)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 55 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 50 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 45 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 40 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 35 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 30 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 25 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 20 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 15 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 10 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n >> 5 & 31)::integer + 1, 1)
    || substr('0123456789abcdefghjkmnpqrstvwxyz', (n & 31)::integer + 1, 1)
    || substr('0123456789abcdef', (shard >> 4) + 1, 1) || substr('0123456789abcdef', (shard & 15) + 1, 1) $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- A field of a digest, as internal/intake/digest.go writes it.
CREATE FUNCTION digest_field(b bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT int8send(octet_length(b)::bigint) || b $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Metadata as internal/intake/metadata.go spells it: names in the order of their bytes, no blanks. Numbers are spelled as jsonb keeps them.
CREATE FUNCTION metadata_text(value jsonb, deeper integer DEFAULT 32) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF deeper < 0 THEN
        RAISE EXCEPTION '/metadata: is nested more than 32 deep' USING ERRCODE = '22023';
    END IF;
    CASE jsonb_typeof(value)
    WHEN 'object' THEN
        RETURN '{' || coalesce((SELECT string_agg(metadata_text(to_jsonb(m.key), deeper) || ':' || metadata_text(m.value, deeper - 1), ','
            ORDER BY m.key COLLATE "C") FROM jsonb_each(value) m), '') || '}';
    WHEN 'array' THEN
        RETURN '[' || coalesce((SELECT string_agg(metadata_text(a.value, deeper - 1), ',' ORDER BY a.place)
            FROM jsonb_array_elements(value) WITH ORDINALITY a (value, place)), '') || ']';
    WHEN 'string' THEN
        RETURN replace(replace(value::text, chr(8232), '\u2028'), chr(8233), '\u2029');
    WHEN 'number' THEN
        IF abs(value::numeric) >= 1.797693134862315807937e308 OR value::numeric <> 0 AND abs(value::numeric) < 2.47e-324 THEN
            RAISE EXCEPTION '/metadata: holds a number beyond the range of a double' USING ERRCODE = '22023';
        END IF;
        RETURN value::text;
    ELSE
        RETURN value::text;
    END CASE;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Whether a content type that is not the usual one is a media type that a header can hold (RFC 9110 §8.3.1).
CREATE FUNCTION is_media_type(value text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT octet_length(value) <= 255 AND value !~ '[^ -~]'
    AND value ~ '^[!#$%&''*+.^_`|~0-9A-Za-z-]+/[!#$%&''*+.^_`|~0-9A-Za-z-]+( *; *[!#$%&''*+.^_`|~0-9A-Za-z-]+=([!#$%&''*+.^_`|~0-9A-Za-z-]+|"([^"\\]|\\.)*"))* *;? *$'
    AND (SELECT count(*) = count(DISTINCT lower(p[1]))
           FROM regexp_matches(value, ';\s*([^=;"]+)=("(?:[^"\\]|\\.)*"|[^;]*)', 'g') p) $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Where a value breaks a JSON Schema, as far as PostgreSQL can tell: NULL says that it does not know of any breach, and not that
-- there is none. It knows the plain rules and passes over all others; the judge is internal/schema, at the fan-out. So it must never
-- find a breach where that finds none: TestWhatSQLRefusesTheJudgeRefuses holds the two against each other.
CREATE FUNCTION schema_breach(rules jsonb, value jsonb, place text, whole jsonb, deeper integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    kind   constant text := jsonb_typeof(value);
    breach text;
    member record;
BEGIN
    IF jsonb_typeof(rules) = 'boolean' THEN
        RETURN CASE WHEN rules = 'false' THEN place || ': may not be there' END;
    ELSIF jsonb_typeof(rules) <> 'object' OR deeper <= 0 THEN -- rules that lead to others over and over would take for ever
        RETURN NULL;
    END IF;
    IF rules ? '$ref' THEN -- within the schema and plainly spelled
        IF rules ->> '$ref' ~ '^#(/[A-Za-z0-9$_.-]+)*$' AND whole #> string_to_array(substr(rules ->> '$ref', 3), '/') IS NOT NULL THEN
            breach := schema_breach(whole #> string_to_array(substr(rules ->> '$ref', 3), '/'), value, place, whole, deeper - 8);
        END IF;
        IF breach IS NOT NULL THEN
            RETURN breach;
        END IF;
    END IF;
    IF rules ? 'type' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements_text(CASE jsonb_typeof(rules -> 'type') WHEN 'array' THEN rules -> 'type'
                ELSE jsonb_build_array(rules -> 'type') END) t (name)
         WHERE t.name = kind OR t.name = 'integer' AND kind = 'number' AND trunc(value::numeric) = value::numeric) THEN
        RETURN place || ': is no ' || (SELECT string_agg(t.name, ' or ' ORDER BY t.n)
            FROM jsonb_array_elements_text(CASE jsonb_typeof(rules -> 'type') WHEN 'array' THEN rules -> 'type'
                ELSE jsonb_build_array(rules -> 'type') END) WITH ORDINALITY t (name, n)) || ' but ' || kind;
    END IF;
    IF rules ? 'enum' AND NOT EXISTS (SELECT FROM jsonb_array_elements(rules -> 'enum') e (one) WHERE e.one = value)
        OR rules ? 'const' AND rules -> 'const' <> value THEN
        RETURN place || ': is none of the values that are allowed';
    END IF;
    CASE kind
    WHEN 'number' THEN
        IF value::numeric < (rules ->> 'minimum')::numeric OR value::numeric <= (rules ->> 'exclusiveMinimum')::numeric
            OR value::numeric > (rules ->> 'maximum')::numeric OR value::numeric >= (rules ->> 'exclusiveMaximum')::numeric THEN
            RETURN place || ': is beyond the bounds that are allowed';
        END IF;
    WHEN 'string' THEN
        IF length(value #>> '{}') < (rules ->> 'minLength')::numeric OR length(value #>> '{}') > (rules ->> 'maxLength')::numeric THEN
            RETURN place || ': is shorter or longer than is allowed';
        END IF;
    WHEN 'array' THEN
        IF jsonb_array_length(value) < (rules ->> 'minItems')::numeric OR jsonb_array_length(value) > (rules ->> 'maxItems')::numeric THEN
            RETURN place || ': has less or more items than are allowed';
        ELSIF rules ? 'items' AND NOT rules ? 'prefixItems' THEN
            FOR member IN SELECT i.item, i.n - 1 AS n FROM jsonb_array_elements(value) WITH ORDINALITY i (item, n) LOOP
                breach := schema_breach(rules -> 'items', member.item, place || '/' || member.n, whole, deeper - 1);
                IF breach IS NOT NULL THEN
                    RETURN breach;
                END IF;
            END LOOP;
        END IF;
    WHEN 'object' THEN
        FOR member IN SELECT r.name FROM jsonb_array_elements_text(CASE WHEN rules ? 'required' THEN rules -> 'required' ELSE '[]' END) r (name) LOOP
            IF NOT value ? member.name THEN
                RETURN place || '/' || replace(replace(member.name, '~', '~0'), '/', '~1') || ': is required';
            END IF;
        END LOOP;
        FOR member IN SELECT m.key AS name, m.value AS item FROM jsonb_each(value) m LOOP
            breach := NULL;
            IF (rules -> 'properties') ? member.name THEN
                breach := schema_breach(rules -> 'properties' -> member.name, member.item,
                    place || '/' || replace(replace(member.name, '~', '~0'), '/', '~1'), whole, deeper - 1);
            ELSIF rules ? 'additionalProperties' AND NOT rules ? 'patternProperties' THEN
                breach := schema_breach(rules -> 'additionalProperties', member.item,
                    place || '/' || replace(replace(member.name, '~', '~0'), '/', '~1'), whole, deeper - 1);
            END IF;
            IF breach IS NOT NULL THEN
                RETURN breach;
            END IF;
        END LOOP;
    ELSE
        NULL; -- true, false and null have no rules of their own
    END CASE;
    IF rules ? 'allOf' THEN
        FOR member IN SELECT a.one FROM jsonb_array_elements(rules -> 'allOf') a (one) LOOP
            breach := schema_breach(member.one, value, place, whole, deeper - 8);
            IF breach IS NOT NULL THEN
                RETURN breach;
            END IF;
        END LOOP;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Where a payload breaks the schema of its type, as schema_breach does. What PostgreSQL cannot read it leaves to the judge.
CREATE FUNCTION payload_breach(rules json, content_type text, payload bytea) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    media constant text := lower(btrim(split_part(content_type, ';', 1)));
    body  text;
BEGIN
    IF media NOT IN ('application/json', 'text/json') AND media NOT LIKE '%+json' THEN
        RETURN '/content_type: is no JSON, and the event type has a schema, which is about JSON';
    END IF;
    body := convert_from(payload, 'UTF8');
    BEGIN
        PERFORM body::json;
    EXCEPTION WHEN invalid_text_representation THEN
        RETURN '/payload: is not JSON, and the event type has a schema';
    END;
    IF jsonb_path_exists(rules::jsonb, '$.**."$id"') THEN -- references may mean something else there
        RETURN NULL;
    END IF;
    RETURN schema_breach(rules::jsonb, body::jsonb, '/payload', rules::jsonb, 64);
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- The order of the checks is that of the fields, each tells of itself alone, and all come before anything is written.
CREATE FUNCTION enqueue(
    tenant text, type text, payload bytea, content_type text DEFAULT 'application/json', uid text DEFAULT NULL, group_key text DEFAULT NULL,
    deliver_at timestamptz DEFAULT NULL, endpoint_ids text[] DEFAULT NULL, metadata jsonb DEFAULT NULL
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict error
DECLARE
    at      timestamptz := clock_timestamp();
    bucket  smallint;
    owner   bigint;
    largest bigint;
    rules   json;  -- the schema of its type
    breach  text;
    event   bigint;
    xact    xid8;
    place   bigint; -- in the order of the fan-out
    named   bigint[];
    refs    bytea := int8send(0); -- those as the digest has them, and the metadata:
    about   text := '';
    due     timestamptz;
    sum     bytea;
    before  bytea;
    first   bigint; -- the tenant as it is named; the event that has the uid
    there   boolean;
BEGIN
    -- Indexes tenants_pkey and tenants_uid_key. It takes no lock: what is enqueued for a tenant that is being deleted comes to nothing.
    IF starts_with(tenant, 'ten_') AND length(tenant) = 19 THEN
        bucket := ((strpos('0123456789abcdef', substr(tenant, 18, 1)) - 1) << 4) | (strpos('0123456789abcdef', substr(tenant, 19, 1)) - 1);
        first := id_number(substr(tenant, 5, 13));
        SELECT t.id, (SELECT s.value FROM intake_settings s WHERE s.name = 'max_payload'),
               (SELECT y.schema FROM event_types y WHERE y.name = enqueue.type) INTO owner, largest, rules
          FROM tenants t WHERE t.shard = bucket AND t.id = first AND t.deleted_at IS NULL;
    ELSE
        SELECT t.shard, t.id, (SELECT s.value FROM intake_settings s WHERE s.name = 'max_payload'),
               (SELECT y.schema FROM event_types y WHERE y.name = enqueue.type) INTO bucket, owner, largest, rules
          FROM tenants t WHERE t.uid = enqueue.tenant AND t.deleted_at IS NULL;
    END IF;
    IF owner IS NULL THEN
        RAISE EXCEPTION '/tenant: no such tenant' USING ERRCODE = 'P0002';
    END IF;
    IF payload IS NULL THEN
        RAISE EXCEPTION '/payload: is null; one without any bytes is ''''' USING ERRCODE = '22023';
    ELSIF octet_length(payload) > coalesce(largest, 1048576) THEN
        RAISE EXCEPTION '/payload: is % bytes; events.max_payload allows %', octet_length(payload), coalesce(largest, 1048576)
            USING ERRCODE = '54000';
    END IF;
    IF type IS NULL OR type = '' OR octet_length(type) > 128 OR type ~ '[^A-Za-z0-9_.-]' THEN
        RAISE EXCEPTION '/type: an event type has 1 to 128 letters, digits, ''_'', ''.'' and ''-''' USING ERRCODE = '22023';
    END IF;
    IF content_type IS DISTINCT FROM 'application/json' THEN
        content_type := btrim(content_type, E' \t\n\x0b\f\r' || chr(133) || chr(160)); -- before PostgreSQL 16, '\v' is a v
        IF content_type IS NULL OR content_type = '' THEN
            content_type := 'application/json';
        ELSIF NOT is_media_type(content_type) THEN
            RAISE EXCEPTION '/content_type: is no media type such as application/json, in at most 255 characters' USING ERRCODE = '22023';
        END IF;
    END IF;
    uid := nullif(uid, '');
    IF uid IS NOT NULL THEN
        IF octet_length(uid) > 128 OR uid ~ '[^A-Za-z0-9_.:-]' THEN
            RAISE EXCEPTION '/uid: a uid has 1 to 128 letters, digits, ''_'', ''.'', '':'' and ''-''' USING ERRCODE = '22023';
        ELSIF uid ~ '^(ten|ep|evt|dlv|att|alr|key|sch|job|aud|ses|typ)_' THEN
            RAISE EXCEPTION '/uid: a uid must not begin like an id of ours' USING ERRCODE = '22023';
        END IF;
    END IF;
    group_key := nullif(group_key, '');
    IF group_key IS NOT NULL AND (length(group_key) > 256 OR group_key ~ E'[\\x01-\\x1f\\x7f-\\x9f]') THEN
        RAISE EXCEPTION '/group_key: a group key has 1 to 256 characters, in UTF-8, and no control characters' USING ERRCODE = '22023';
    END IF;
    IF deliver_at IS NOT NULL THEN
        IF NOT isfinite(deliver_at) THEN
            RAISE EXCEPTION '/deliver_at: is no time' USING ERRCODE = '22023';
        ELSIF deliver_at > at + interval '2160 hours' THEN
            RAISE EXCEPTION '/deliver_at: lies more than 90 days ahead' USING ERRCODE = '22023';
        ELSIF deliver_at > at THEN
            due := deliver_at; -- what has passed is at once
        END IF;
    END IF;
    IF endpoint_ids IS NOT NULL THEN
        IF cardinality(endpoint_ids) NOT BETWEEN 1 AND 100 THEN
            RAISE EXCEPTION '/endpoint_ids: names 1 to 100 endpoints, or is left out for all that subscribe' USING ERRCODE = '22023';
        END IF;
        -- Index endpoints_by_tenant.
        WITH own AS MATERIALIZED (
            SELECT p.id, p.uid, 'ep_' || id_text(bucket, p.id) AS spelled FROM endpoints p
             WHERE p.shard = bucket AND p.tenant_id = owner AND p.deleted_at IS NULL)
        SELECT array_agg(o.id), min(a.place) FILTER (WHERE o.id IS NULL) - 1 INTO named, place
          FROM unnest(enqueue.endpoint_ids) WITH ORDINALITY a (ref, place) LEFT JOIN own o ON a.ref = o.spelled OR a.ref = o.uid;
        IF place IS NOT NULL THEN
            RAISE EXCEPTION '/endpoint_ids/%: the tenant has no such endpoint', place USING ERRCODE = '22023';
        END IF;
        SELECT int8send(count(*)) || string_agg(digest_field(convert_to(r.ref, 'UTF8')), '' ORDER BY r.ref COLLATE "C") INTO refs
          FROM (SELECT DISTINCT a.ref FROM unnest(enqueue.endpoint_ids) a (ref)) r;
    END IF;
    IF metadata IS NOT NULL THEN
        IF jsonb_typeof(metadata) <> 'object' THEN
            RAISE EXCEPTION '/metadata: is no object of JSON values' USING ERRCODE = '22023';
        ELSIF metadata = '{}' THEN
            metadata := NULL;
        ELSE
            about := metadata_text(metadata);
            IF octet_length(about) > 16384 THEN
                RAISE EXCEPTION '/metadata: has % bytes as JSON; 16384 are allowed', octet_length(about) USING ERRCODE = '22023';
            END IF;
        END IF;
    END IF;

    IF rules IS NOT NULL THEN
        breach := payload_breach(rules, content_type, payload);
        IF breach IS NOT NULL THEN
            RAISE EXCEPTION '%', breach USING ERRCODE = '22023';
        END IF;
    END IF;

    -- The top one of an id's 22 low bits is for ids made here (internal/id).
    -- The transaction gets its number before the place, so that the fan-out can tell when nothing more can come in before a place.
    xact := pg_current_xact_id();
    place := nextval('enqueue_order');
    event := ((floor(date_part('epoch', at) * 1000)::bigint - 1735689600000) << 22) | 2097152 | (place & 2097151);

    IF uid IS NOT NULL THEN
        sum := sha256(digest_field(convert_to(type, 'UTF8')) || digest_field(convert_to(content_type, 'UTF8'))
            || int8send(octet_length(payload)::bigint) || payload
            || (digest_field(convert_to(uid, 'UTF8')) || digest_field(convert_to(coalesce(group_key, ''), 'UTF8'))
                || digest_field(CASE WHEN deliver_at IS NULL THEN '' ELSE int8send((extract(epoch FROM deliver_at) * 1000000)::bigint) END)
                || refs || digest_field(convert_to(about, 'UTF8'))));
        LOOP
            -- Whoever comes second waits here for the end of the first one's transaction. Index idempotency_keys_pkey, as below.
            INSERT INTO idempotency_keys (shard, tenant_id, kind, key, digest, event_ids, created_at)
            VALUES (bucket, owner, 'uid', enqueue.uid, sum, ARRAY[event], at) ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
            -- The lock has the caller's commit wait for a standby, as the first one's did: see recallSQL in internal/intake/recall.go.
            SELECT k.digest, k.event_ids[1],
                   EXISTS (SELECT FROM events e WHERE e.shard = bucket AND e.id = k.event_ids[1] AND e.tenant_id = owner)
              INTO before, first, there
              FROM idempotency_keys k
             WHERE k.shard = bucket AND k.tenant_id = owner AND k.kind = 'uid' AND k.key = enqueue.uid FOR KEY SHARE;
            CONTINUE WHEN NOT FOUND; -- it was dropped in between
            IF there AND before <> sum THEN
                RAISE EXCEPTION '/uid: the uid was used before for an event with other content' USING ERRCODE = 'unique_violation';
            ELSIF there THEN
                RETURN 'evt_' || id_text(bucket, first);
            END IF;
            -- A uid lives as long as its event.
            UPDATE idempotency_keys k SET digest = sum, event_ids = ARRAY[event], created_at = at
             WHERE k.shard = bucket AND k.tenant_id = owner AND k.kind = 'uid' AND k.key = enqueue.uid AND k.event_ids = ARRAY[first];
            EXIT WHEN FOUND;
        END LOOP;
    END IF;

    INSERT INTO events (shard, id, tenant_id, uid, type, content_type, payload, group_key, deliver_at, delivery_ids, skipped, metadata)
    VALUES (bucket, event, owner, enqueue.uid, enqueue.type, enqueue.content_type, enqueue.payload, enqueue.group_key, due, NULL, NULL,
        enqueue.metadata);
    INSERT INTO events_unrouted (n, shard, event_id, endpoint_ids) VALUES (place, bucket, event, named);
    -- NOTIFY takes a lock at the commit that all others wait for, so only one transaction at a time has it. The rest is found by
    -- who was woken for that one, or by the next look.
    IF pg_try_advisory_xact_lock(1886610804, 2) THEN
        PERFORM pg_notify('postrider_enqueued', '');
    END IF;
    RETURN 'evt_' || id_text(bucket, event);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Whoever calls it needs no right on any table: it runs as its owner, and finds the tables in the schema where they lie now
-- and nowhere else.
DO $$
DECLARE
    callable constant text := 'enqueue(text, text, bytea, text, text, text, timestamptz, text[], jsonb)';
BEGIN
    EXECUTE format('ALTER FUNCTION %s SET search_path TO pg_catalog, %I, pg_temp', callable, current_schema());
    -- A caller that has it off would have the backslashes of these texts and patterns read otherwise.
    EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings TO on', callable);
    EXECUTE format('REVOKE ALL ON FUNCTION %s, id_number(text), id_text(smallint, bigint), digest_field(bytea), '
        'metadata_text(jsonb, integer), is_media_type(text), schema_breach(jsonb, jsonb, text, jsonb, integer), payload_breach(json, text, bytea) FROM PUBLIC', callable);
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'postrider_producer') THEN
        BEGIN
            CREATE ROLE postrider_producer NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN -- roles are the whole server's: another database's migration made it just now
                NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'there is no role postrider_producer, and this user may not make it: docs/operating.md says how to grant enqueue';
                RETURN;
        END;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO postrider_producer', current_schema());
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO postrider_producer', callable);
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
-- The schema before this one has no place for an event that is not fanned out, and the database cannot do it.
DO $$
DECLARE waiting bigint;
BEGIN
    LOCK TABLE events, events_unrouted IN ACCESS EXCLUSIVE MODE;
    SELECT count(*) INTO waiting FROM events_unrouted;
    IF waiting > 0 THEN
        RAISE EXCEPTION '% events are still to be fanned out: have postrider serve run until events_unrouted is empty, then migrate down', waiting;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'postrider_producer') THEN -- which other databases may use, too: it stays
        EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM postrider_producer', current_schema());
    END IF;
END $$;
-- +goose StatementEnd
DROP FUNCTION enqueue, payload_breach, schema_breach, is_media_type, metadata_text, digest_field, id_text, id_number;
DROP TABLE events_unrouted, intake_settings;
DROP SEQUENCE enqueue_order;
DROP INDEX events_broken;
ALTER TABLE events ALTER COLUMN delivery_ids SET NOT NULL;
