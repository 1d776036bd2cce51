-- What becomes of holds.

CREATE OR REPLACE FUNCTION microbudget.commit(
    p_root text, p_path text, p_id text, p_actual jsonb, p_now bigint, p_keep bigint
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    now bigint := microbudget.clock(p_now);
    h microbudget.holds := microbudget.find(p_root, p_id, now, p_keep, false);
BEGIN
    IF h.path = p_path THEN
        IF h.state <> 'committed' THEN
            h := microbudget.settle(h, 'committed', h.amounts || coalesce(p_actual, '{}'), now);
        END IF;
        RETURN microbudget.reply(h);
    END IF;
    RETURN '["no hold"]';
END $$;

CREATE OR REPLACE FUNCTION microbudget.release(
    p_root text, p_path text, p_id text, p_now bigint, p_keep bigint
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    now bigint := microbudget.clock(p_now);
    h microbudget.holds := microbudget.find(p_root, p_id, now, p_keep, true);
BEGIN
    IF h.path = p_path THEN
        IF h.state = 'held' THEN
            h := microbudget.settle(h, 'released', '{}', now);
        END IF;
        RETURN microbudget.reply(h);
    END IF;
    RETURN '["no hold"]';
END $$;

CREATE OR REPLACE FUNCTION microbudget.extend(
    p_root text, p_path text, p_id text, p_ttl bigint, p_now bigint, p_keep bigint
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    now bigint := microbudget.clock(p_now);
    h microbudget.holds := microbudget.find(p_root, p_id, now, p_keep, true);
BEGIN
    IF h.path = p_path THEN
        IF h.state <> 'held' THEN
            RETURN jsonb_build_array('settled', h.state);
        END IF;
        h.expires := greatest(h.expires, now + p_ttl);
        UPDATE microbudget.holds SET expires = h.expires WHERE root = p_root AND id = p_id;
        RETURN microbudget.reply(h);
    END IF;
    RETURN '["no hold"]';
END $$;

CREATE OR REPLACE FUNCTION microbudget.hold(
    p_root text, p_path text, p_id text, p_now bigint, p_keep bigint
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    h microbudget.holds := microbudget.find(
        p_root, p_id, microbudget.clock(p_now), p_keep, true);
BEGIN
    RETURN CASE WHEN h.path = p_path THEN microbudget.reply(h) ELSE '["no hold"]' END;
END $$;

-- Replies `more` where some that are due are left.
CREATE OR REPLACE FUNCTION microbudget.expire(p_now bigint, p_keep bigint, p_most integer)
RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    now bigint := microbudget.clock(p_now);
    expired integer := microbudget.expire_due(now, p_most);
BEGIN
    PERFORM microbudget.forget(now - p_keep, p_most);
    RETURN jsonb_build_array(
        CASE WHEN microbudget.any_due(now) THEN 'more' ELSE 'ok' END, expired, now);
END $$;
