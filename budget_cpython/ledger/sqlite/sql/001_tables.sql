-- `inode` is that of the file: a copy has another one. It is in the main file, not in the log alone.
CREATE TABLE ledger (id TEXT NOT NULL, inode TEXT NOT NULL);

INSERT INTO ledger VALUES ('', '');

CREATE TABLE totals (accounts INTEGER NOT NULL, crc INTEGER NOT NULL);

INSERT INTO totals VALUES (0, 1429472249);

-- What one limit counted in one window. Holds name buckets, so no id is used a second time. `cap` is
-- NULL for unlimited. A sum above 2**53 - 1 is text: SQLite's integers end. `crc` is of all columns
-- but `id`.
CREATE TABLE buckets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account TEXT NOT NULL, axis TEXT NOT NULL, window TEXT NOT NULL, current INTEGER NOT NULL,
    starts INTEGER NOT NULL, ends INTEGER NOT NULL,
    spent NOT NULL, held NOT NULL, cap INTEGER, crc INTEGER NOT NULL
);

CREATE INDEX buckets_current ON buckets (account, axis, window) WHERE current;

CREATE INDEX buckets_of_limit ON buckets (account, axis, window, starts);

-- `name` is the root of the path and the key, or an id that begins with '#'. `buckets` are ids.
-- `due` is when a live hold expires, and when a settled one is forgotten: 0 if there was no date.
-- `crc` is of all columns but `number` and `due`.
CREATE TABLE holds (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL, amounts TEXT NOT NULL, buckets TEXT NOT NULL,
    state TEXT NOT NULL, expires INTEGER, actual TEXT, due INTEGER NOT NULL,
    crc INTEGER NOT NULL
);

CREATE INDEX holds_expiring ON holds (due) WHERE state = 'held';

CREATE INDEX holds_settled ON holds (due) WHERE state != 'held';

CREATE VIEW balances AS
SELECT account, axis, window, cap, spent, held,
    max(0, cap - spent - held) AS "left", begins_at, resets_at
FROM (
    SELECT c.account, c.axis, c.window, c.cap,
        c.spent + coalesce(sum(e.spent), 0) AS spent, c.held + coalesce(sum(e.held), 0) AS held,
        c.starts / 1000 AS begins_at,
        CASE WHEN c.ends < 1099511627776000 THEN c.ends / 1000 END AS resets_at
    FROM buckets c LEFT JOIN buckets e
        ON c.window LIKE 'rolling %'
        AND e.account = c.account AND e.axis = c.axis AND e.window = c.window
        AND e.starts < c.starts
        AND e.starts >= c.starts - 1000 * CAST(substr(c.window, 9) AS INTEGER)
    WHERE c.current
    GROUP BY c.id
);

CREATE VIEW holds_live AS
SELECT path,
    CASE WHEN name LIKE '#%' THEN name ELSE substr(name, instr(name, '/') + 1) END AS id,
    amounts, expires / 1000 AS expires_at
FROM holds WHERE state = 'held';

CREATE VIEW history AS
SELECT account, axis, window, cap, spent, held,
    starts / 1000 AS begins_at,
    CASE WHEN ends < 1099511627776000 THEN ends / 1000 END AS resets_at
FROM buckets WHERE NOT current;
