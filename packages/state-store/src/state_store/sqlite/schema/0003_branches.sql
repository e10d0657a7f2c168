-- Schema 3: sessions that branch, turns that are undone, sessions that come from elsewhere.

-- What the copied runs of a fork had used, told apart from what it used itself; copied runs count
-- nowhere else. copied_from is the run of which one is a copy.
ALTER TABLE sessions ADD COLUMN inherited_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN inherited_cost REAL;
ALTER TABLE runs ADD COLUMN copied_from TEXT;

-- A turn is undone run by run, and message by message where there is no run. undone_after is the
-- last seq of the session at that time: by it, and no clock, is told what was made since.
ALTER TABLE runs ADD COLUMN undone_after INTEGER;
ALTER TABLE messages ADD COLUMN undone_at TEXT;
ALTER TABLE messages ADD COLUMN undone_after INTEGER;
CREATE INDEX messages_undone ON messages (session_id, seq) WHERE undone_at IS NOT NULL;
CREATE INDEX runs_retries ON runs (retry_of) WHERE retry_of IS NOT NULL;

-- What was imported, so that importing it again makes nothing new; and the fields of a message that
-- this program has no column for, the text of a JSON object.
ALTER TABLE sessions ADD COLUMN import_digest TEXT;
CREATE INDEX sessions_imported ON sessions (import_digest) WHERE import_digest IS NOT NULL;
ALTER TABLE messages ADD COLUMN extra TEXT;
