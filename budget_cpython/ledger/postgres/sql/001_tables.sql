-- Limits with what their current window counts, windows that are over, and holds.
-- Times are Unix milliseconds. Caps and amounts are whole numbers up to 2**53 - 1, sums of any size.

CREATE TABLE microbudget.limits (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account text COLLATE "C" NOT NULL,
    axis text COLLATE "C" NOT NULL,
    span text COLLATE "C" NOT NULL,    -- the window's name
    cap bigint,                        -- NULL: unlimited
    cell bigint NOT NULL DEFAULT 0,    -- the number of the current window among all of this limit
    moves bigint NOT NULL DEFAULT 0,   -- from window to window so far
    earliest bigint NOT NULL,          -- windows that began since then count too
    start bigint NOT NULL,
    finish bigint NOT NULL,
    spent numeric NOT NULL DEFAULT 0,
    held numeric NOT NULL DEFAULT 0,
    UNIQUE (account, axis, span)
) WITH (fillfactor = 50);

CREATE TABLE microbudget.past (
    limit_id bigint NOT NULL,
    cell bigint NOT NULL,
    moved bigint NOT NULL,             -- the limit's `moves` when it was left
    cap bigint,
    start bigint NOT NULL,
    finish bigint NOT NULL,
    spent numeric NOT NULL,
    held numeric NOT NULL,
    PRIMARY KEY (limit_id, cell)
);

CREATE TABLE microbudget.holds (
    root text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    amounts jsonb NOT NULL,
    state text NOT NULL,
    expires bigint,                    -- NULL: a charge
    actual jsonb,
    settled bigint,                    -- when; NULL: live
    limits bigint[] NOT NULL,          -- what it counts against: limits, and their cells
    cells bigint[] NOT NULL,
    PRIMARY KEY (root, id)
);

CREATE INDEX holds_live ON microbudget.holds (expires, root, id) WHERE settled IS NULL;
CREATE INDEX holds_settled ON microbudget.holds (settled) WHERE settled IS NOT NULL;

CREATE TABLE microbudget.totals (accounts bigint NOT NULL);
INSERT INTO microbudget.totals VALUES (0);
