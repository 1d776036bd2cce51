-- Commits a hold and takes the next one on its path, in one step.

CREATE OR REPLACE FUNCTION microbudget.renew(
    p_chain text[], p_former text, p_actual jsonb, p_id text, p_asked jsonb, p_counted jsonb,
    p_ttl bigint, p_now bigint, p_bounds text, p_keep bigint, p_forget integer
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    path text := p_chain[cardinality(p_chain)];
    now bigint;
    answer jsonb;
BEGIN
    PERFORM microbudget.share(p_chain[1]);
    now := microbudget.clock(p_now);
    -- All locks first, in the order in which other operations take them: holds, then limits.
    PERFORM 1 FROM microbudget.holds one
    WHERE one.root = p_chain[1] AND one.id IN (p_former, p_id) ORDER BY one.id FOR UPDATE;
    PERFORM 1 FROM microbudget.limits one
    WHERE one.account = ANY (p_chain) ORDER BY one.id FOR UPDATE;
    BEGIN
        answer := microbudget.commit(p_chain[1], path, p_former, p_actual, now, p_keep);
        IF answer ->> 0 = 'ok' THEN
            answer := microbudget.reserve(
                p_chain, p_id, p_asked, p_counted, p_ttl, now, p_bounds, p_keep, p_forget);
        END IF;
        IF answer ->> 0 <> 'ok' THEN
            RAISE EXCEPTION USING ERRCODE = 'MB001';
        END IF;
    EXCEPTION WHEN SQLSTATE 'MB001' THEN  -- which undoes the commit
    END;
    IF answer ->> 0 IN ('refused', 'uncounted') THEN  -- windows move on all the same
        PERFORM microbudget.roll(p_chain, now, p_bounds::jsonb);
    END IF;
    RETURN answer;
END $$;
