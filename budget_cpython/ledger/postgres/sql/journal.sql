-- What operators note and read. What is read changes nothing: a standby can be asked, too.

CREATE OR REPLACE FUNCTION microbudget.is_below(p_path text, p_selected text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_selected = '' OR p_path = p_selected OR starts_with(p_path, p_selected || '/')
$$;

-- Returns balances as if windows that are over had moved on, and holds that are over had expired.
CREATE OR REPLACE FUNCTION microbudget.balances(p_path text, p_now bigint, p_bounds text)
RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    now bigint := microbudget.clock(p_now);
    lacking text[];
    rows jsonb;
BEGIN
    SELECT array_agg(DISTINCT one.span) INTO lacking FROM microbudget.limits one
    WHERE microbudget.is_below(one.account, p_path) AND one.finish <= now
        AND microbudget.bounds_of(p_bounds::jsonb, one.span, now) IS NULL;
    IF lacking IS NOT NULL THEN
        RETURN jsonb_build_array('roll', now, to_jsonb(lacking));
    END IF;
    WITH found AS MATERIALIZED (
        SELECT one.*, one.finish <= now AS over, CASE WHEN one.finish <= now
            THEN microbudget.bounds_of(p_bounds::jsonb, one.span, now) END AS next
        FROM microbudget.limits one WHERE microbudget.is_below(one.account, p_path)
    ), wanted AS (  -- the windows of now; `stays`: what is counted so far belongs to them
        SELECT one.*,
            CASE WHEN over THEN next[1] ELSE earliest END AS from_start,
            CASE WHEN over THEN next[2] ELSE start END AS now_start,
            CASE WHEN over THEN next[3] ELSE finish END AS now_finish,
            NOT over OR finish = 1 OR (next[2] < start AND NOT EXISTS (
                SELECT FROM microbudget.past ended
                WHERE ended.limit_id = one.id AND ended.start = next[2])) AS stays
        FROM found one
    ), due AS (
        SELECT one.id, counted.cell, sum((hold.amounts ->> one.axis)::bigint) AS amount
        FROM microbudget.holds hold
        CROSS JOIN LATERAL unnest(hold.limits, hold.cells) counted(id, cell)
        JOIN found one ON one.id = counted.id
        WHERE hold.settled IS NULL AND hold.expires <= now AND hold.amounts ? one.axis
        GROUP BY 1, 2
    ), cells AS (
        SELECT id, cell, CASE WHEN stays THEN now_start ELSE start END AS start, spent, held,
            stays AS counts
        FROM wanted
        UNION ALL
        SELECT one.id, ended.cell, ended.start, ended.spent, ended.held, NOT one.stays
        FROM wanted one JOIN microbudget.past ended ON ended.limit_id = one.id
    )
    SELECT jsonb_agg(balance) INTO rows FROM (
        SELECT jsonb_build_array(one.account, one.axis, one.span, one.cap,
            coalesce(sum(cell.spent + coalesce(due.amount, 0)), 0),
            coalesce(sum(cell.held - coalesce(due.amount, 0)), 0),
            one.now_start, one.now_finish) AS balance
        FROM wanted one
        LEFT JOIN cells cell ON cell.id = one.id AND cell.start >= one.from_start
            AND (cell.start < one.now_start OR cell.start = one.now_start AND cell.counts)
        LEFT JOIN due ON due.id = cell.id AND due.cell = cell.cell
        GROUP BY one.id, one.account, one.axis, one.span, one.cap, one.now_start, one.now_finish
    ) balances;
    RETURN jsonb_build_array('ok', coalesce(rows, '[]'));
END $$;

CREATE OR REPLACE FUNCTION microbudget.open_holds(p_path text, p_most bigint, p_now bigint)
RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    now bigint := microbudget.clock(p_now);
    rows jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_array(
        one.path, one.id, one.amounts, one.taken, one.expires)
        ORDER BY one.taken, one.root, one.id) INTO rows
    FROM (
        SELECT * FROM microbudget.holds hold
        WHERE hold.settled IS NULL AND hold.expires > now
            AND microbudget.is_below(hold.path, p_path)
        ORDER BY hold.taken, hold.root, hold.id LIMIT p_most
    ) one;
    RETURN jsonb_build_array('ok', coalesce(rows, '[]'));
END $$;

-- Forgets replies to operations that nobody sends again by now, except those that are locked.
CREATE OR REPLACE FUNCTION microbudget.forget_replies(p_most integer) RETURNS void
LANGUAGE sql VOLATILE AS $$
    DELETE FROM microbudget.replies WHERE p_most > 0 AND id IN (
        SELECT one.id FROM microbudget.replies one
        WHERE one.at < clock_timestamp() - interval '1 hour'
        LIMIT p_most FOR UPDATE SKIP LOCKED)
$$;

CREATE OR REPLACE FUNCTION microbudget.shown(event microbudget.events) RETURNS json
LANGUAGE sql IMMUTABLE AS $$
    SELECT json_build_array(event.number, event.at, event.kind, event.account,
        coalesce(event.name, ''), event.details::text)
$$;

-- Appends events, a list of kind, account, name and details each, and drops old ones.
CREATE OR REPLACE FUNCTION microbudget.note(
    p_id text, p_events json, p_most bigint, p_keep bigint, p_now bigint, p_forget integer
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    seconds bigint := microbudget.clock(p_now) / 1000;
    last bigint;
    answer jsonb;
    numbers jsonb := '[]';
    event record;
BEGIN
    SELECT one.number INTO last FROM microbudget.last_event one FOR UPDATE;
    SELECT one.reply INTO answer FROM microbudget.replies one WHERE one.id = p_id;
    IF FOUND THEN
        RETURN answer;
    END IF;
    FOR event IN
        SELECT one.value ->> 0 AS kind, one.value ->> 1 AS account, one.value ->> 2 AS name,
            one.value ->> 3 AS details
        FROM json_array_elements(p_events) WITH ORDINALITY one(value, place) ORDER BY one.place
    LOOP
        INSERT INTO microbudget.events VALUES (
            last + 1, seconds, event.kind, event.account, nullif(event.name, ''),
            event.details::json)
        ON CONFLICT (name) DO NOTHING;
        IF FOUND THEN
            last := last + 1;
        END IF;
        numbers := numbers || to_jsonb(CASE WHEN FOUND THEN last ELSE 0 END);
    END LOOP;
    UPDATE microbudget.last_event SET number = last;
    DELETE FROM microbudget.events WHERE number IN (
        SELECT one.number FROM microbudget.events one
        ORDER BY one.number LIMIT 100 + json_array_length(p_events)
    ) AND (number <= last - p_most OR at <= seconds - p_keep);
    answer := jsonb_build_array('ok', numbers);
    INSERT INTO microbudget.replies (id, reply) VALUES (p_id, answer);
    PERFORM microbudget.forget_replies(p_forget);
    RETURN answer;
END $$;

-- Returns the last events, or the first ones after a number.
CREATE OR REPLACE FUNCTION microbudget.events(
    p_path text, p_kinds jsonb, p_after bigint, p_most bigint
) RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
    rows json;
BEGIN
    IF p_after IS NULL THEN
        SELECT json_agg(one.event ORDER BY one.number) INTO rows FROM (
            SELECT number, microbudget.shown(event) AS event FROM microbudget.events event
            WHERE microbudget.is_below(account, p_path) AND (p_kinds = '[]' OR p_kinds ? kind)
            ORDER BY number DESC LIMIT p_most
        ) one;
    ELSE
        SELECT json_agg(one.event ORDER BY one.number) INTO rows FROM (
            SELECT number, microbudget.shown(event) AS event FROM microbudget.events event
            WHERE number > p_after AND microbudget.is_below(account, p_path)
                AND (p_kinds = '[]' OR p_kinds ? kind)
            ORDER BY number LIMIT p_most
        ) one;
    END IF;
    RETURN json_build_array('ok', coalesce(rows, '[]'));
END $$;

-- Adds usage, a sorted list of hour, path, model, tool and amounts each: so none waits for one that
-- waits for it. Drops hours that are over `p_keep` seconds old, of the newest hour's age at most: what
-- a clock that is ahead says makes no others old.
CREATE OR REPLACE FUNCTION microbudget.add_usage(
    p_id text, p_usage json, p_newest bigint, p_keep bigint, p_now bigint, p_forget integer
) RETURNS jsonb
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO microbudget.replies (id, reply) VALUES (p_id, '["ok", null]')
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO microbudget.usage AS known
        SELECT (one.value ->> 0)::bigint, one.value ->> 1, one.value ->> 2, one.value ->> 3,
            amount.key, amount.value::numeric
        FROM json_array_elements(p_usage) WITH ORDINALITY one(value, place)
        CROSS JOIN LATERAL json_each_text(one.value -> 4) amount(key, value)
        ORDER BY one.place, amount.key COLLATE "C"
        ON CONFLICT (hour, path, model, tool, axis)
        DO UPDATE SET amount = known.amount + excluded.amount;
        DELETE FROM microbudget.usage
        WHERE hour <= least(p_newest, microbudget.clock(p_now) / 1000) - p_keep;
        PERFORM microbudget.forget_replies(p_forget);
    END IF;
    RETURN '["ok", null]';
END $$;

CREATE OR REPLACE FUNCTION microbudget.usage(p_path text, p_since bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array('ok', coalesce(jsonb_agg(jsonb_build_array(
        one.hour, one.path, one.model, one.tool, one.axis, one.amount)), '[]'))
    FROM microbudget.usage one
    WHERE one.hour >= p_since AND microbudget.is_below(one.path, p_path)
$$;
