-- +goose Up
-- "ANLS": says whose file this is, so that no other database is ever migrated.
PRAGMA application_id = 1095650387;

-- One row: the epoch is a random text made with the store, the revision counts
-- the transactions that changed what a reader sees.
CREATE TABLE feed (
    one      BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    epoch    TEXT   NOT NULL,
    revision BIGINT NOT NULL
);
INSERT INTO feed (one, epoch, revision) VALUES (1, lower(hex(randomblob(16))), 0);

-- What was last observed of each session, and what the projection made of it.
CREATE TABLE sessions (
    upstream          TEXT   NOT NULL,
    id                TEXT   NOT NULL,
    digest            BLOB   NOT NULL, -- with the one below, what every run reads of every row
    missing_at        BIGINT NOT NULL,
    parent_id         TEXT   NOT NULL,
    title             TEXT   NOT NULL,
    directory         TEXT   NOT NULL,
    project_id        TEXT   NOT NULL,
    created           BIGINT NOT NULL,
    updated           BIGINT NOT NULL,
    upstream_archived BIGINT NOT NULL,
    archived_at       BIGINT NOT NULL,
    activity          BIGINT NOT NULL,
    system            BIGINT NOT NULL,
    revision          BIGINT NOT NULL,
    PRIMARY KEY (upstream, id)
);
CREATE INDEX sessions_activity  ON sessions (activity DESC, id);
CREATE INDEX sessions_revision  ON sessions (revision);
CREATE INDEX sessions_directory ON sessions (upstream, directory);
CREATE INDEX sessions_parent    ON sessions (upstream, parent_id) WHERE parent_id <> '';

-- Only sessions that have metadata, or had some: {} is then kept with its
-- revision, so that an older page does not bring the old document back.
CREATE TABLE session_metadata (
    upstream TEXT   NOT NULL,
    id       TEXT   NOT NULL,
    revision BIGINT NOT NULL,
    document BLOB   NOT NULL,
    PRIMARY KEY (upstream, id),
    FOREIGN KEY (upstream, id) REFERENCES sessions (upstream, id)
);

CREATE TABLE directories (
    upstream  TEXT NOT NULL,
    given     TEXT NOT NULL,
    canonical TEXT NOT NULL,
    PRIMARY KEY (upstream, given)
);
CREATE INDEX directories_canonical ON directories (canonical);

-- A person's choice: no walk reads or writes it, and nothing cascades to it.
CREATE TABLE pins (
    upstream TEXT NOT NULL,
    id       TEXT NOT NULL,
    PRIMARY KEY (upstream, id)
);

CREATE TABLE checkpoints (
    upstream   TEXT   NOT NULL PRIMARY KEY,
    run        TEXT   NOT NULL,
    generation BIGINT NOT NULL,
    list       TEXT   NOT NULL,
    page_token TEXT   NOT NULL,
    pages      BIGINT NOT NULL,
    seen       BIGINT NOT NULL,
    done       BIGINT NOT NULL
);

-- Walks that stopped at their budget, with the ids they have seen.
CREATE TABLE walks (
    upstream   TEXT   NOT NULL PRIMARY KEY,
    run        TEXT   NOT NULL,
    generation BIGINT NOT NULL,
    list       TEXT   NOT NULL,
    page_token TEXT   NOT NULL,
    pages      BIGINT NOT NULL,
    seen       BIGINT NOT NULL,
    done       BIGINT NOT NULL,
    ids        BLOB   NOT NULL
);

CREATE TABLE runs (
    id          TEXT   NOT NULL PRIMARY KEY,
    cause       TEXT   NOT NULL,
    owner       TEXT   NOT NULL,
    started_at  BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    outcome     TEXT   NOT NULL,
    error_code  TEXT   NOT NULL,
    error       TEXT   NOT NULL
);
CREATE INDEX runs_started ON runs (started_at DESC, id DESC);
CREATE INDEX runs_open    ON runs (id) WHERE outcome = '';

CREATE TABLE run_targets (
    run         TEXT   NOT NULL REFERENCES runs (id),
    job         TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    epoch       BIGINT NOT NULL,
    started_at  BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    outcome     TEXT   NOT NULL,
    error_code  TEXT   NOT NULL,
    error       TEXT   NOT NULL,
    detail      BLOB   NOT NULL,
    PRIMARY KEY (run, job, name)
);
CREATE INDEX run_targets_open ON run_targets (job, name) WHERE outcome = '';

-- The epoch of a job counts its owners; run = '' means that nobody owns it.
CREATE TABLE leases (
    job        TEXT   NOT NULL,
    target     TEXT   NOT NULL,
    epoch      BIGINT NOT NULL,
    run        TEXT   NOT NULL,
    owner      TEXT   NOT NULL,
    lock_token TEXT   NOT NULL,
    expires    BIGINT NOT NULL,
    PRIMARY KEY (job, target)
);

-- +goose Down
DROP TABLE leases;
DROP TABLE run_targets;
DROP TABLE runs;
DROP TABLE walks;
DROP TABLE checkpoints;
DROP TABLE pins;
DROP TABLE directories;
DROP TABLE session_metadata;
DROP TABLE sessions;
DROP TABLE feed;
PRAGMA application_id = 0;
