-- What several operations need.

CREATE OR REPLACE FUNCTION microbudget.clock(p_now bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- A path's limits stay those they are until the transaction ends.
CREATE OR REPLACE FUNCTION microbudget.share(p_root text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock_shared(hashtext('microbudget.'), hashtext(p_root))
$$;

CREATE OR REPLACE FUNCTION microbudget.reply(h microbudget.holds) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_array('ok', jsonb_build_array(
        h.path, h.id, h.amounts, h.state, h.expires, h.actual))
$$;

-- Puts what was used in the place of what a hold stands for, in its own windows.
CREATE OR REPLACE FUNCTION microbudget.settle(
    h microbudget.holds, p_state text, p_used jsonb, p_now bigint
) RETURNS microbudget.holds
LANGUAGE plpgsql AS $$
DECLARE
    l record;
    amount bigint;
    used bigint;
    off bigint;   -- what is no longer held
    back bigint;  -- what is no longer spent
BEGIN
    FOR l IN
        SELECT one.id, one.axis, one.cell FROM microbudget.limits one
        WHERE one.id = ANY (h.limits) ORDER BY one.id FOR UPDATE
    LOOP
        amount := coalesce((h.amounts ->> l.axis)::bigint, 0);
        used := coalesce((p_used ->> l.axis)::bigint, 0);
        CONTINUE WHEN amount = 0 AND used = 0;
        off := CASE h.state WHEN 'held' THEN amount ELSE 0 END;
        back := CASE h.state WHEN 'expired' THEN amount ELSE 0 END;
        IF h.cells[array_position(h.limits, l.id)] = l.cell THEN
            UPDATE microbudget.limits SET
                held = held - off, spent = spent - back + used
            WHERE id = l.id;
        ELSE
            UPDATE microbudget.past SET
                held = held - off, spent = spent - back + used
            WHERE limit_id = l.id AND cell = h.cells[array_position(h.limits, l.id)];
        END IF;
    END LOOP;
    h.state := p_state;
    h.actual := p_used;
    h.settled := coalesce(h.settled, p_now);
    UPDATE microbudget.holds SET state = h.state, actual = h.actual, settled = h.settled
    WHERE root = h.root AND id = h.id;
    RETURN h;
END $$;

-- Finds and locks a hold, expired if it is due; no row where none is known any more.
CREATE OR REPLACE FUNCTION microbudget.find(
    p_root text, p_id text, p_now bigint, p_keep bigint, p_expire boolean
) RETURNS microbudget.holds
LANGUAGE plpgsql AS $$
DECLARE
    h microbudget.holds;
BEGIN
    SELECT * INTO h FROM microbudget.holds one
    WHERE one.root = p_root AND one.id = p_id FOR UPDATE;
    IF NOT FOUND OR h.settled < p_now - p_keep THEN
        RETURN NULL;
    END IF;
    IF p_expire AND h.settled IS NULL AND h.expires <= p_now THEN
        h := microbudget.settle(h, 'expired', h.amounts, p_now);
    END IF;
    RETURN h;
END $$;

-- Answers an operation whose key is known; NULL where it is free.
CREATE OR REPLACE FUNCTION microbudget.known(
    p_root text, p_path text, p_id text, p_amounts jsonb, p_charged boolean, p_now bigint,
    p_keep bigint
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    h microbudget.holds := microbudget.find(p_root, p_id, p_now, p_keep, false);
BEGIN
    IF h.id IS NULL THEN
        DELETE FROM microbudget.holds
        WHERE root = p_root AND id = p_id AND settled < p_now - p_keep;
        RETURN NULL;
    END IF;
    IF h.path <> p_path OR h.amounts <> p_amounts OR (h.expires IS NULL) <> p_charged THEN
        RETURN '["reused"]';
    END IF;
    IF h.settled IS NULL AND h.expires <= p_now THEN
        h := microbudget.settle(h, 'expired', h.amounts, p_now);
    END IF;
    RETURN microbudget.reply(h);
END $$;

-- Expires some of the holds that are due. All locks are taken in one order: holds by root and id,
-- then limits by id.
CREATE OR REPLACE FUNCTION microbudget.expire_due(p_now bigint, p_most integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    h microbudget.holds;
    due microbudget.holds[] := '{}';
    ids bigint[] := '{}';
BEGIN
    FOR h IN
        SELECT * FROM microbudget.holds one
        WHERE (one.root, one.id) IN (
            SELECT other.root, other.id FROM microbudget.holds other
            WHERE other.settled IS NULL AND other.expires <= p_now
            ORDER BY other.expires, other.root, other.id LIMIT p_most)
            AND one.settled IS NULL AND one.expires <= p_now  -- still, once it is locked
        ORDER BY one.root, one.id FOR UPDATE
    LOOP
        due := due || h;
        ids := ids || h.limits;
    END LOOP;
    PERFORM 1 FROM microbudget.limits one WHERE one.id = ANY (ids) ORDER BY one.id FOR UPDATE;
    FOREACH h IN ARRAY due LOOP
        PERFORM microbudget.settle(h, 'expired', h.amounts, p_now);
    END LOOP;
    RETURN cardinality(due);
END $$;

CREATE OR REPLACE FUNCTION microbudget.any_due(p_now bigint) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (
        SELECT FROM microbudget.holds one WHERE one.settled IS NULL AND one.expires <= p_now)
$$;

-- Forgets some of the holds that were settled long ago, except those that are locked.
CREATE OR REPLACE FUNCTION microbudget.forget(p_before bigint, p_most integer) RETURNS void
LANGUAGE sql VOLATILE AS $$
    DELETE FROM microbudget.holds WHERE (root, id) IN (
        SELECT one.root, one.id FROM microbudget.holds one WHERE one.settled < p_before
        ORDER BY one.settled LIMIT p_most FOR UPDATE SKIP LOCKED)
$$;
