-- Holds amounts on every limit of a path and of all above it, in one step. An amount of null has no
-- bound: any cap refuses it, and nothing of it is held.

CREATE OR REPLACE FUNCTION microbudget.reserve(
    p_chain text[], p_id text, p_asked jsonb, p_counted jsonb, p_ttl bigint, p_now bigint,
    p_bounds text, p_keep bigint, p_forget integer
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    amounts jsonb := jsonb_strip_nulls(p_asked);
    path text := p_chain[cardinality(p_chain)];
    now bigint;
    answer jsonb;
    l microbudget.limits;
    amount bigint;
    whole record;
    over boolean;
    rolled boolean := false;
    lacking text[];
    ids bigint[];
    cells bigint[];
    counted bigint[];
    refused jsonb;
BEGIN
    PERFORM microbudget.share(p_chain[1]);
    now := microbudget.clock(p_now);
    PERFORM 1 FROM microbudget.holds one WHERE one.root = p_chain[1] AND one.id = p_id;
    IF FOUND THEN
        answer := microbudget.known(p_chain[1], path, p_id, amounts, false, now, p_keep);
        IF answer IS NOT NULL THEN
            RETURN answer;
        END IF;
    END IF;
    LOOP
        ids := '{}';
        cells := '{}';
        counted := '{}';
        refused := '[]';
        over := false;
        FOR l IN
            SELECT * FROM microbudget.limits one
            WHERE one.account = ANY (p_chain) ORDER BY one.id FOR UPDATE
        LOOP
            over := over OR l.finish <= now;
            ids := ids || l.id;
            cells := cells || l.cell;
            CONTINUE WHEN NOT p_asked ? l.axis;
            amount := (p_asked ->> l.axis)::bigint;
            IF amount IS NOT NULL THEN
                counted := counted || l.id;
            END IF;
            IF l.earliest < l.start THEN
                whole := microbudget.reached(l);
                l.spent := whole.spent;
                l.held := whole.held;
            END IF;
            IF l.cap IS NOT NULL AND (amount IS NULL OR l.spent + l.held + amount > l.cap) THEN
                refused := refused || jsonb_build_array(jsonb_build_array(
                    l.finish, l.account, l.axis, l.span, amount, l.cap, l.spent, l.held));
            END IF;
        END LOOP;
        EXIT WHEN rolled OR NOT over;
        rolled := true;
        lacking := microbudget.roll(p_chain, now, p_bounds::jsonb);
        IF lacking IS NOT NULL THEN
            RETURN jsonb_build_array('roll', now, to_jsonb(lacking));
        END IF;
    END LOOP;
    IF ids = '{}' THEN
        RETURN '["no account"]';
    END IF;
    IF p_counted <> '[]' THEN
        SELECT jsonb_build_array('uncounted', asked.axis) INTO answer
        FROM jsonb_array_elements_text(p_counted) asked(axis)
        WHERE NOT EXISTS (
            SELECT FROM microbudget.limits one WHERE one.id = ANY (ids) AND one.axis = asked.axis)
        LIMIT 1;
        IF FOUND THEN
            RETURN answer;
        END IF;
    END IF;
    IF refused <> '[]' THEN
        PERFORM 1 FROM microbudget.holds one WHERE one.root = p_chain[1] AND one.id = p_id;
        IF FOUND THEN  -- taken while this one waited for the limits, and keys come first
            RETURN jsonb_build_array('again', now);
        END IF;
        RETURN jsonb_build_array('refused', refused);
    END IF;
    INSERT INTO microbudget.holds (root, id, path, amounts, state, taken, expires, limits, cells)
    VALUES (p_chain[1], p_id, path, amounts, 'held', now, now + p_ttl, ids, cells)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN jsonb_build_array('again', now);
    END IF;
    UPDATE microbudget.limits SET held = held + (amounts ->> axis)::bigint
    WHERE id = ANY (counted);
    IF p_forget > 0 THEN
        PERFORM microbudget.forget(now - p_keep, p_forget);
    END IF;
    RETURN jsonb_build_array('ok', jsonb_build_array(
        path, p_id, amounts, 'held', now + p_ttl, NULL));
END $$;
