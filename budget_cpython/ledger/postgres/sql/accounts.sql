-- Accounts, their limits, and what stands against them.

CREATE OR REPLACE FUNCTION microbudget.set_limits(
    p_chain text[], p_limits jsonb, p_max_accounts bigint, p_now bigint, p_bounds text
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    path text := p_chain[cardinality(p_chain)];
    now bigint;
    own integer;
    lacking text[];
    l microbudget.limits;
    wanted record;
    bounds bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('microbudget.'), hashtext(p_chain[1]));
    now := microbudget.clock(p_now);
    PERFORM 1 FROM microbudget.limits one WHERE one.account = path ORDER BY one.id FOR UPDATE;
    GET DIAGNOSTICS own = ROW_COUNT;
    SELECT array_agg(DISTINCT new.value ->> 1) INTO lacking
    FROM jsonb_array_elements(p_limits) new
    LEFT JOIN microbudget.limits old
        ON old.account = path AND old.axis = new.value ->> 0 AND old.span = new.value ->> 1
    WHERE (old.id IS NULL OR old.finish <= now OR (0 < now AND now < old.start))
        AND microbudget.bounds_of(p_bounds::jsonb, new.value ->> 1, now) IS NULL;
    IF lacking IS NOT NULL THEN
        RETURN jsonb_build_array('roll', now, to_jsonb(lacking));
    END IF;
    IF own = 0 AND p_limits <> '[]' THEN
        UPDATE microbudget.totals SET accounts = accounts + 1 WHERE accounts < p_max_accounts;
        IF NOT FOUND THEN
            RETURN jsonb_build_array('full', format(
                'the ledger has its %s accounts: raise max_accounts', p_max_accounts));
        END IF;
    END IF;
    FOR wanted IN
        SELECT new.value ->> 0 AS axis, new.value ->> 1 AS span,
            (new.value ->> 2)::bigint AS cap
        FROM jsonb_array_elements(p_limits) new
    LOOP
        bounds := microbudget.bounds_of(p_bounds::jsonb, wanted.span, now);
        SELECT * INTO l FROM microbudget.limits one
        WHERE one.account = path AND one.axis = wanted.axis AND one.span = wanted.span;
        IF l.id IS NULL THEN
            INSERT INTO microbudget.limits (account, axis, span, cap, earliest, start, finish)
            VALUES (path, wanted.axis, wanted.span, wanted.cap, bounds[1], bounds[2], bounds[3]);
            CONTINUE;
        ELSIF l.finish <= now OR (0 < now AND now < l.start) THEN
            PERFORM microbudget.follow(l, bounds);
        END IF;
        UPDATE microbudget.limits SET cap = wanted.cap WHERE id = l.id;
    END LOOP;
    WITH gone AS (
        DELETE FROM microbudget.limits one
        WHERE one.account = path AND NOT EXISTS (
            SELECT FROM jsonb_array_elements(p_limits) new
            WHERE new.value ->> 0 = one.axis AND new.value ->> 1 = one.span)
        RETURNING one.id)
    DELETE FROM microbudget.past USING gone WHERE limit_id = gone.id;
    IF own > 0 AND p_limits = '[]' THEN
        UPDATE microbudget.totals SET accounts = accounts - 1;
    END IF;
    RETURN '["ok", null]';
END $$;

CREATE OR REPLACE FUNCTION microbudget.limits(p_path text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array('ok', coalesce(jsonb_agg(
        jsonb_build_array(one.axis, one.span, one.cap)
        ORDER BY one.axis, one.span), '[]'))
    FROM microbudget.limits one WHERE one.account = p_path
$$;

CREATE OR REPLACE FUNCTION microbudget.accounts() RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array('ok', coalesce(jsonb_agg(DISTINCT one.account), '[]'))
    FROM microbudget.limits one
$$;

-- Makes a path's numbers those of now; what is to be replied instead, or NULL.
CREATE OR REPLACE FUNCTION microbudget.catch_up(p_chain text[], p_now bigint, p_bounds text)
RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    lacking text[];
BEGIN
    IF microbudget.any_due(p_now) THEN
        PERFORM microbudget.expire_due(p_now, 200);
        RETURN jsonb_build_array('again', p_now);
    END IF;
    PERFORM 1 FROM microbudget.limits one
    WHERE one.account = ANY (p_chain) AND one.finish <= p_now;
    IF FOUND THEN
        lacking := microbudget.roll(p_chain, p_now, p_bounds::jsonb);
        IF lacking IS NOT NULL THEN
            RETURN jsonb_build_array('roll', p_now, to_jsonb(lacking));
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION microbudget.balance(p_chain text[], p_now bigint, p_bounds text)
RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    now bigint := microbudget.clock(p_now);
    instead jsonb := microbudget.catch_up(p_chain, now, p_bounds);
    rows jsonb;
BEGIN
    IF instead IS NOT NULL THEN
        RETURN instead;
    END IF;
    SELECT jsonb_agg(jsonb_build_array(
        one.account, one.axis, one.span, one.cap,
        whole.spent, whole.held, one.start, one.finish)
        ORDER BY one.account, one.axis, one.span) INTO rows
    FROM microbudget.limits one CROSS JOIN LATERAL microbudget.reached(one) whole
    WHERE one.account = ANY (p_chain);
    IF rows IS NULL THEN
        RETURN '["no account"]';
    END IF;
    RETURN jsonb_build_array('ok', rows);
END $$;

CREATE OR REPLACE FUNCTION microbudget.history(p_chain text[], p_now bigint, p_bounds text)
RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    now bigint := microbudget.clock(p_now);
    instead jsonb := microbudget.catch_up(p_chain, now, p_bounds);
    rows jsonb;
BEGIN
    IF instead IS NOT NULL THEN
        RETURN instead;
    END IF;
    PERFORM 1 FROM microbudget.limits one WHERE one.account = ANY (p_chain);
    IF NOT FOUND THEN
        RETURN '["no account"]';
    END IF;
    SELECT jsonb_agg(jsonb_build_array(
        one.account, one.axis, one.span, ended.cap,
        ended.spent, ended.held, ended.start, ended.finish)
        ORDER BY one.axis, one.span, ended.start DESC) INTO rows
    FROM microbudget.limits one JOIN microbudget.past ended ON ended.limit_id = one.id
    WHERE one.account = p_chain[cardinality(p_chain)];
    RETURN jsonb_build_array('ok', coalesce(rows, '[]'));
END $$;
