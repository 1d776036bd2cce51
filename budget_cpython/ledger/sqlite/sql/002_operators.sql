-- When a hold was taken, in Unix milliseconds: 0 where that is not known. `crc` leaves it out.
ALTER TABLE holds ADD COLUMN taken INTEGER NOT NULL DEFAULT 0;

-- What happened to accounts. `details` is JSON, `name` is NULL for none, `at` a Unix second.
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL,
    account TEXT NOT NULL, details TEXT NOT NULL, name TEXT UNIQUE
);

-- What calls used within an hour, which began at that Unix second. `amounts` are JSON.
CREATE TABLE usage (
    hour INTEGER NOT NULL, path TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL,
    amounts TEXT NOT NULL, PRIMARY KEY (hour, path, model, tool)
) WITHOUT ROWID;

DROP VIEW holds_live;

CREATE VIEW holds_live AS
SELECT path,
    CASE WHEN name LIKE '#%' THEN name ELSE substr(name, instr(name, '/') + 1) END AS id,
    amounts, expires / 1000 AS expires_at, taken / 1000 AS taken_at
FROM holds WHERE state = 'held';
