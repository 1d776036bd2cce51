-- The schema, and how many migrations were done in it. CREATE SCHEMA IF NOT EXISTS would take the
-- right to create it even where it exists.

DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'microbudget') THEN
        EXECUTE format('CREATE SCHEMA %I', 'microbudget');
    END IF;
END $$;
CREATE TABLE microbudget.schema_version (version integer NOT NULL);
INSERT INTO microbudget.schema_version VALUES (0);
