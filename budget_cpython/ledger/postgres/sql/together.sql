-- Does operations of several callers in one transaction, in their order, each as if it came alone.

-- An operation is its function's name, its holds, and the arguments as texts. A hold is its root, a
-- space and its id. The roots are sorted; `p_accounts` are all accounts that the operations are on.
CREATE OR REPLACE FUNCTION microbudget.together(
    p_operations jsonb, p_roots text[], p_accounts text[]
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    a jsonb;
    names text[];
    known text[];
    late text[];
    answer jsonb;
    answers jsonb[] := '{}';
BEGIN
    -- All locks first, in the order in which other operations take them: holds, then limits. So no
    -- two transactions wait for each other.
    PERFORM microbudget.share(root) FROM unnest(p_roots) root;
    SELECT array_agg(DISTINCT name) INTO names
    FROM jsonb_array_elements(p_operations) one, jsonb_array_elements_text(one -> 1) name;
    SELECT coalesce(array_agg(locked.name), '{}') INTO known FROM (
        SELECT named.name FROM unnest(names) named(name) JOIN microbudget.holds one
        ON one.root = split_part(named.name, ' ', 1)
            AND one.id = substr(named.name, strpos(named.name, ' ') + 1)
        ORDER BY one.root, one.id FOR UPDATE OF one) locked;
    PERFORM 1 FROM microbudget.limits one
    WHERE one.account = ANY (p_accounts) ORDER BY one.id FOR UPDATE;
    -- Holds that were taken while this one waited for the limits are to be locked before these: their
    -- operations are asked for again.
    SELECT coalesce(array_agg(named.name), '{}') INTO late
    FROM unnest(names) named(name) JOIN microbudget.holds one
    ON one.root = split_part(named.name, ' ', 1)
        AND one.id = substr(named.name, strpos(named.name, ' ') + 1)
    WHERE named.name <> ALL (known);
    FOR a IN SELECT value FROM jsonb_array_elements(p_operations) LOOP
        IF a -> 1 ?| late THEN
            answers := answers || '["later"]'::jsonb;
            CONTINUE;
        END IF;
        CASE a ->> 0
        WHEN 'reserve' THEN
            answer := microbudget.reserve(
                string_to_array(a ->> 2, ' '), a ->> 3, (a ->> 4)::jsonb, (a ->> 5)::jsonb,
                (a ->> 6)::bigint, (a ->> 7)::bigint, a ->> 8, (a ->> 9)::bigint,
                (a ->> 10)::integer);
        WHEN 'renew' THEN
            answer := microbudget.renew(
                string_to_array(a ->> 2, ' '), a ->> 3, (a ->> 4)::jsonb, a ->> 5,
                (a ->> 6)::jsonb, (a ->> 7)::jsonb, (a ->> 8)::bigint, (a ->> 9)::bigint,
                a ->> 10, (a ->> 11)::bigint, (a ->> 12)::integer);
        WHEN 'charge' THEN
            answer := microbudget.charge(
                string_to_array(a ->> 2, ' '), a ->> 3, (a ->> 4)::jsonb, (a ->> 5)::bigint,
                a ->> 6, (a ->> 7)::bigint, (a ->> 8)::integer);
        WHEN 'commit' THEN
            answer := microbudget.commit(
                a ->> 2, a ->> 3, a ->> 4, (a ->> 5)::jsonb, (a ->> 6)::bigint,
                (a ->> 7)::bigint);
        WHEN 'release' THEN
            answer := microbudget.release(
                a ->> 2, a ->> 3, a ->> 4, (a ->> 5)::bigint, (a ->> 6)::bigint);
        WHEN 'extend' THEN
            answer := microbudget.extend(
                a ->> 2, a ->> 3, a ->> 4, (a ->> 5)::bigint, (a ->> 6)::bigint,
                (a ->> 7)::bigint);
        END CASE;
        answers := answers || answer;
    END LOOP;
    RETURN to_jsonb(answers);
END $$;
