-- Version 1. The columns of sessions and messages that other tools know come first, with the
-- names and types they know; ours follow. Times are fixed-width UTC text.

CREATE TABLE store (
  workspace_id TEXT NOT NULL,
  generation   TEXT NOT NULL,
  created_at   TEXT NOT NULL
) STRICT;

CREATE TABLE schema_version (
  version    INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  applied_at TEXT NOT NULL
) STRICT;

CREATE TABLE sessions (
  id                  TEXT NOT NULL PRIMARY KEY,
  provider            TEXT,
  model_id            TEXT,
  model_config        TEXT,
  system_prompt       TEXT,
  parameters          TEXT,
  status              TEXT NOT NULL CHECK (status IN ('idle', 'running', 'failed', 'closed')),
  show_reasoning      INTEGER NOT NULL,
  message_count       INTEGER NOT NULL DEFAULT 0,
  total_tokens        INTEGER NOT NULL DEFAULT 0,
  cost                REAL,
  duration_ms         INTEGER NOT NULL DEFAULT 0,
  created_at          TEXT NOT NULL,
  updated_at          TEXT NOT NULL,
  title               TEXT,
  title_source        TEXT NOT NULL CHECK (title_source IN ('auto', 'user')),
  endpoint            TEXT,
  usage_complete      INTEGER NOT NULL DEFAULT 1,
  archived_at         TEXT,
  forked_from_session TEXT,
  forked_from_seq     INTEGER,
  metadata            TEXT,
  revision            INTEGER NOT NULL DEFAULT 1
) STRICT;

-- The list of sessions is read from these two alone, newest activity first.
CREATE INDEX sessions_active ON sessions (updated_at, id) WHERE archived_at IS NULL;
CREATE INDEX sessions_archived ON sessions (updated_at, id) WHERE archived_at IS NOT NULL;
CREATE INDEX sessions_title ON sessions (title);

CREATE TABLE runs (
  id                  TEXT NOT NULL PRIMARY KEY,
  session_id          TEXT NOT NULL REFERENCES sessions (id),
  first_seq           INTEGER NOT NULL,
  status              TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed')),
  error_type          TEXT,
  started_at          TEXT NOT NULL,
  finished_at         TEXT,
  owner               TEXT NOT NULL,
  input_tokens        INTEGER,
  output_tokens       INTEGER,
  cached_input_tokens INTEGER,
  reasoning_tokens    INTEGER,
  cost                REAL,
  provider            TEXT,
  model               TEXT,
  retry_of            TEXT,
  undone_at           TEXT,
  journal_seq         INTEGER,
  journal_chain       TEXT,
  journal_lost_count  INTEGER NOT NULL DEFAULT 0,
  UNIQUE (session_id, first_seq),
  CHECK ((status = 'failed') = (error_type IS NOT NULL)),
  CHECK ((status = 'pending') = (finished_at IS NULL))
) STRICT;

-- The database itself keeps a session from having two runs at once.
CREATE UNIQUE INDEX runs_pending ON runs (session_id) WHERE status = 'pending';

-- Reading originals leaves out undone runs; looking them up must not cost what all runs would.
CREATE INDEX runs_undone ON runs (session_id) WHERE undone_at IS NOT NULL;

CREATE TABLE messages (
  id                INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id        TEXT NOT NULL REFERENCES sessions (id),
  role              TEXT NOT NULL,
  content           TEXT,
  reasoning_content TEXT,
  tool_calls        TEXT,
  tool_call_id      TEXT,
  name              TEXT,
  created_at        TEXT,
  seq               INTEGER NOT NULL,
  run_id            TEXT REFERENCES runs (id) DEFERRABLE INITIALLY DEFERRED,
  kind              TEXT NOT NULL CHECK (kind IN ('original', 'summary', 'derived')),
  covers_first      INTEGER,
  covers_last       INTEGER,
  parts             TEXT,
  provider_data     TEXT,
  repaired          INTEGER NOT NULL DEFAULT 0,
  imported_at       TEXT,
  UNIQUE (session_id, seq)
) STRICT;

CREATE INDEX messages_run ON messages (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE tool_executions (
  run_id      TEXT NOT NULL REFERENCES runs (id),
  session_id  TEXT NOT NULL REFERENCES sessions (id),
  call_seq    INTEGER NOT NULL,
  call_index  INTEGER NOT NULL,
  call_id     TEXT NOT NULL,
  name        TEXT NOT NULL,
  replay      TEXT NOT NULL CHECK (replay IN ('safe', 'unsafe')),
  started_at  TEXT NOT NULL,
  finished_at TEXT,
  outcome     TEXT CHECK (outcome IN ('ok', 'error', 'cancelled', 'unknown')),
  result_seq  INTEGER,
  PRIMARY KEY (session_id, call_seq, call_index)
) STRICT, WITHOUT ROWID;

CREATE INDEX tool_executions_run ON tool_executions (run_id);

-- What stays of a deleted session, so that nothing brings it back: no content.
CREATE TABLE tombstones (
  session_id    TEXT NOT NULL PRIMARY KEY,
  deleted_at    TEXT NOT NULL,
  message_count INTEGER NOT NULL,
  run_count     INTEGER NOT NULL
) STRICT;
