-- Whether a program that left holds unsynced has used the file: then a loss of power may undo some.
CREATE TABLE durability (unsynced INTEGER NOT NULL);

INSERT INTO durability VALUES (0);
