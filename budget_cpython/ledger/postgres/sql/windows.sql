-- Windows that end. Their bounds come from the client: the calendar is not known here.

-- What stands against a limit, with what windows before its own count that are within its reach.
CREATE OR REPLACE FUNCTION microbudget.reached(
    l microbudget.limits, OUT spent numeric, OUT held numeric
)
LANGUAGE sql STABLE AS $$
    SELECT l.spent + coalesce(sum(one.spent), 0), l.held + coalesce(sum(one.held), 0)
    FROM microbudget.past one
    WHERE one.limit_id = l.id AND one.start >= l.earliest AND one.start < l.start
$$;

-- Returns `(first, start, end)` of the window that `p_now` is in; NULL where the client sent none.
CREATE OR REPLACE FUNCTION microbudget.bounds_of(p_bounds jsonb, p_span text, p_now bigint)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bounds bigint[] := ARRAY[
        (p_bounds -> p_span ->> 0)::bigint,
        (p_bounds -> p_span ->> 1)::bigint,
        (p_bounds -> p_span ->> 2)::bigint];
BEGIN
    RETURN CASE WHEN bounds[2] <= p_now AND p_now < bounds[3] THEN bounds END;
END $$;

-- Moves a locked limit to another window; an existing count of that window continues.
CREATE OR REPLACE FUNCTION microbudget.follow(l microbudget.limits, p_bounds bigint[])
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    again microbudget.past;
    moved bigint := l.moves + 1;
BEGIN
    SELECT * INTO again FROM microbudget.past one
    WHERE one.limit_id = l.id AND one.start = p_bounds[2];
    IF l.finish = 1 OR (p_bounds[2] < l.start AND again.cell IS NULL) THEN
        UPDATE microbudget.limits SET
            earliest = p_bounds[1], start = p_bounds[2], finish = p_bounds[3]
        WHERE id = l.id;
    ELSE
        DELETE FROM microbudget.past WHERE limit_id = l.id AND cell = again.cell;
        INSERT INTO microbudget.past
        VALUES (l.id, l.cell, moved, l.cap, l.start, l.finish, l.spent, l.held);
        UPDATE microbudget.limits SET
            cell = coalesce(again.cell, moved), moves = moved,
            earliest = p_bounds[1], start = p_bounds[2],
            finish = coalesce(again.finish, p_bounds[3]),
            spent = coalesce(again.spent, 0), held = coalesce(again.held, 0)
        WHERE id = l.id;
    END IF;
    DELETE FROM microbudget.past one
    WHERE one.limit_id = l.id AND one.held = 0 AND one.start < p_bounds[1] AND one.moved <= (
        SELECT other.moved FROM microbudget.past other WHERE other.limit_id = l.id
        ORDER BY other.moved DESC OFFSET 32 LIMIT 1);
END $$;

-- Moves those limits of a path whose windows are over; where bounds are missing, returns the
-- windows' names instead and changes nothing.
CREATE OR REPLACE FUNCTION microbudget.roll(p_chain text[], p_now bigint, p_bounds jsonb)
RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    l microbudget.limits;
    lacking text[];
BEGIN
    PERFORM microbudget.share(p_chain[1]);
    PERFORM 1 FROM microbudget.limits one
    WHERE one.account = ANY (p_chain) ORDER BY one.id FOR UPDATE;
    SELECT array_agg(DISTINCT one.span) INTO lacking FROM microbudget.limits one
    WHERE one.account = ANY (p_chain) AND one.finish <= p_now
        AND microbudget.bounds_of(p_bounds, one.span, p_now) IS NULL;
    IF lacking IS NULL THEN
        FOR l IN
            SELECT * FROM microbudget.limits one
            WHERE one.account = ANY (p_chain) AND one.finish <= p_now
        LOOP
            PERFORM microbudget.follow(l, microbudget.bounds_of(p_bounds, l.span, p_now));
        END LOOP;
    END IF;
    RETURN lacking;
END $$;
