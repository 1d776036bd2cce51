-- What operators read: since when holds are live, events, and what calls used.

ALTER TABLE microbudget.holds ADD COLUMN taken bigint;  -- NULL: a charge
UPDATE microbudget.holds SET taken = expires - 300000 WHERE settled IS NULL;

CREATE TABLE microbudget.events (
    number bigint PRIMARY KEY,
    at bigint NOT NULL,                -- Unix seconds
    kind text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    name text COLLATE "C" UNIQUE,      -- NULL: none
    details json NOT NULL
);

-- Who notes events locks this row until they are committed: numbers are in the order of commits.
CREATE TABLE microbudget.last_event (number bigint NOT NULL);
INSERT INTO microbudget.last_event VALUES (0);

CREATE TABLE microbudget.usage (
    hour bigint NOT NULL,              -- the Unix second in which it began
    path text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    axis text COLLATE "C" NOT NULL,
    amount numeric NOT NULL,
    PRIMARY KEY (hour, path, model, tool, axis)
);

-- What was replied to operations that may be sent again, and would else count twice.
CREATE TABLE microbudget.replies (
    id text COLLATE "C" PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reply jsonb NOT NULL
);
