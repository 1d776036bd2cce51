-- One ledger may have several databases: which ledger this is of, and which of how many it is.

ALTER TABLE microbudget.schema_version
    ADD COLUMN ledger uuid, ADD COLUMN place integer, ADD COLUMN places integer;
