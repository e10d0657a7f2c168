-- Schema 2: what a delete still owes, and sessions found by the digits that people type.

-- When everything outside this database that held the session (its journal) was gone. NULL: nobody
-- has seen to it yet, for a crash came between; whoever opens the store next does.
ALTER TABLE tombstones ADD COLUMN erased_at TEXT;

CREATE INDEX tombstones_owed ON tombstones (session_id) WHERE erased_at IS NULL;

-- A session is named by its last digits, four or more: without this all ids would be read for it.
CREATE INDEX sessions_digits ON sessions (substr(id, -4));
