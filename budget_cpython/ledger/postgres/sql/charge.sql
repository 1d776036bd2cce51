-- Records amounts as spent on every limit of a path and of all above it, without asking.

CREATE OR REPLACE FUNCTION microbudget.charge(
    p_chain text[], p_id text, p_amounts jsonb, p_now bigint, p_bounds text, p_keep bigint,
    p_forget integer
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    path text := p_chain[cardinality(p_chain)];
    now bigint;
    answer jsonb;
    lacking text[];
    ids bigint[];
    cells bigint[];
BEGIN
    now := microbudget.clock(p_now);
    PERFORM 1 FROM microbudget.holds one WHERE one.root = p_chain[1] AND one.id = p_id;
    IF FOUND THEN
        answer := microbudget.known(p_chain[1], path, p_id, p_amounts, true, now, p_keep);
        IF answer IS NOT NULL THEN
            RETURN answer;
        END IF;
    END IF;
    lacking := microbudget.roll(p_chain, now, p_bounds::jsonb);
    IF lacking IS NOT NULL THEN
        RETURN jsonb_build_array('roll', now, to_jsonb(lacking));
    END IF;
    SELECT array_agg(one.id ORDER BY one.id), array_agg(one.cell ORDER BY one.id) INTO ids, cells
    FROM microbudget.limits one WHERE one.account = ANY (p_chain);
    IF ids IS NULL THEN
        RETURN '["no account"]';
    END IF;
    INSERT INTO microbudget.holds
        (root, id, path, amounts, state, actual, settled, limits, cells)
    VALUES (p_chain[1], p_id, path, p_amounts, 'committed', p_amounts, now, ids, cells)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN jsonb_build_array('again', now);
    END IF;
    UPDATE microbudget.limits SET spent = spent + (p_amounts ->> axis)::bigint
    WHERE id = ANY (ids) AND p_amounts ? axis;
    IF p_forget > 0 THEN
        PERFORM microbudget.forget(now - p_keep, p_forget);
    END IF;
    RETURN jsonb_build_array('ok', jsonb_build_array(
        path, p_id, p_amounts, 'committed', NULL, p_amounts));
END $$;
