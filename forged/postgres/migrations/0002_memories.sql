-- Memories by scope, once for each embedding model in use: ${set} ends the names of one model's tables, and
-- ${dimension} is the number of numbers in its vectors.
--
-- Sessions, users and agents own what is theirs: their tables have the key (owner, id) and are partitioned by the
-- owner, so that one recall touches one partition of each and a distributed server can place them by it.
-- The organization's pieces of documents are one table.

CREATE TABLE forged.session_memories${set} (
    session_id text NOT NULL,
    id text NOT NULL,
    agent_id text NOT NULL,
    user_id text,
    content text NOT NULL,
    embedding vector(${dimension}),
    importance_score real NOT NULL DEFAULT 1.0,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL DEFAULT now() + interval '1 hour',
    metadata jsonb NOT NULL DEFAULT '{}',
    written_by text NOT NULL DEFAULT current_user,
    PRIMARY KEY (session_id, id)
) PARTITION BY HASH (session_id);

-- A version of a memory of a user is one row, and `file` is the whole of its file: the files of the user's machines
-- are the truth, and every machine can write each of them again. `is_head`: no other version replaces it.
CREATE TABLE forged.user_memories${set} (
    user_id text NOT NULL,
    id text NOT NULL,
    agent_id text NOT NULL,
    content text NOT NULL,
    embedding vector(${dimension}),
    memory_type text NOT NULL DEFAULT 'fact',
    category text NOT NULL DEFAULT '',
    version integer NOT NULL DEFAULT 1,
    supersedes text,
    is_head boolean NOT NULL DEFAULT true,
    importance_score real NOT NULL DEFAULT 1.0,
    access_count integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    last_accessed timestamptz NOT NULL DEFAULT now(),
    metadata jsonb NOT NULL DEFAULT '{}',
    file bytea,
    file_sha256 text NOT NULL DEFAULT '',
    changed bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, id)
) PARTITION BY HASH (user_id);

-- `agent_id` is USER/AGENT, or AGENT for one that the team has in common, where `user_id` is who wrote a row first.
CREATE TABLE forged.agent_memories${set} (
    agent_id text NOT NULL,
    id text NOT NULL,
    user_id text,
    content text NOT NULL,
    embedding vector(${dimension}),
    memory_type text NOT NULL DEFAULT 'learning',
    category text NOT NULL DEFAULT '',
    version integer NOT NULL DEFAULT 1,
    supersedes text,
    is_head boolean NOT NULL DEFAULT true,
    importance_score real NOT NULL DEFAULT 1.0,
    access_count integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    last_accessed timestamptz NOT NULL DEFAULT now(),
    metadata jsonb NOT NULL DEFAULT '{}',
    file bytea,
    file_sha256 text NOT NULL DEFAULT '',
    changed bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (agent_id, id)
) PARTITION BY HASH (agent_id);

CREATE TABLE forged.organizational_memories${set} (
    id text PRIMARY KEY,
    agent_id text NOT NULL,
    source text NOT NULL DEFAULT '',
    content text NOT NULL,
    embedding vector(${dimension}),
    chunk_index integer NOT NULL DEFAULT 0,
    document_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    metadata jsonb NOT NULL DEFAULT '{}'
);
-- A piece is longer than a memory, and its vector would be stored away from its row, where a comparison of thousands
-- takes twice as long. Its text is stored away instead, of which a search reads few.
ALTER TABLE forged.organizational_memories${set} ALTER COLUMN embedding SET STORAGE MAIN;

-- Every answer counts its rows of users and agents. With room left on its page a row is counted where it lies; without,
-- it moves, and its vector is put into the graph once more, which takes five times as long.
CREATE TABLE forged.session_memories${set}_00 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 0);
CREATE TABLE forged.session_memories${set}_01 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 1);
CREATE TABLE forged.session_memories${set}_02 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 2);
CREATE TABLE forged.session_memories${set}_03 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 3);
CREATE TABLE forged.session_memories${set}_04 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 4);
CREATE TABLE forged.session_memories${set}_05 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 5);
CREATE TABLE forged.session_memories${set}_06 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 6);
CREATE TABLE forged.session_memories${set}_07 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 7);
CREATE TABLE forged.session_memories${set}_08 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 8);
CREATE TABLE forged.session_memories${set}_09 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 9);
CREATE TABLE forged.session_memories${set}_10 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 10);
CREATE TABLE forged.session_memories${set}_11 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 11);
CREATE TABLE forged.session_memories${set}_12 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 12);
CREATE TABLE forged.session_memories${set}_13 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 13);
CREATE TABLE forged.session_memories${set}_14 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 14);
CREATE TABLE forged.session_memories${set}_15 PARTITION OF forged.session_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 15);

CREATE TABLE forged.user_memories${set}_00 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 0) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_01 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 1) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_02 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 2) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_03 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 3) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_04 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 4) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_05 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 5) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_06 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 6) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_07 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 7) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_08 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 8) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_09 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 9) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_10 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 10) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_11 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 11) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_12 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 12) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_13 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 13) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_14 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 14) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories${set}_15 PARTITION OF forged.user_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 15) WITH (fillfactor = 80);

CREATE TABLE forged.agent_memories${set}_00 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 0) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_01 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 1) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_02 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 2) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_03 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 3) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_04 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 4) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_05 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 5) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_06 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 6) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_07 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 7) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_08 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 8) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_09 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 9) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_10 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 10) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_11 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 11) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_12 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 12) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_13 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 13) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_14 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 14) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories${set}_15 PARTITION OF forged.agent_memories${set} FOR VALUES WITH (MODULUS 16, REMAINDER 15) WITH (fillfactor = 80);

-- Nearest vectors by a graph, which needs no training: lists of an ivfflat index that is made on an empty table are
-- of nothing, and find a sixth of what they should. A session's rows are few, and all of them are compared.
CREATE INDEX user_memories${set}_near ON forged.user_memories${set} USING hnsw (${indexed}) WITH (m = 16, ef_construction = 64);
CREATE INDEX agent_memories${set}_near ON forged.agent_memories${set} USING hnsw (${indexed}) WITH (m = 16, ef_construction = 64);
CREATE INDEX organizational_memories${set}_near ON forged.organizational_memories${set} USING hnsw (${indexed}) WITH (m = 16, ef_construction = 64);

CREATE INDEX session_memories${set}_metadata ON forged.session_memories${set} USING gin (metadata jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX user_memories${set}_metadata ON forged.user_memories${set} USING gin (metadata jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX agent_memories${set}_metadata ON forged.agent_memories${set} USING gin (metadata jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX organizational_memories${set}_metadata ON forged.organizational_memories${set} USING gin (metadata jsonb_path_ops) WITH (fastupdate = off);

-- Rows whose vector is missing, which is added later.
CREATE INDEX user_memories${set}_bare ON forged.user_memories${set} (user_id, id) WHERE embedding IS NULL;
CREATE INDEX agent_memories${set}_bare ON forged.agent_memories${set} (agent_id, id) WHERE embedding IS NULL;
CREATE INDEX organizational_memories${set}_bare ON forged.organizational_memories${set} (id) WHERE embedding IS NULL;

CREATE INDEX session_memories${set}_expiry ON forged.session_memories${set} (expires_at);
CREATE INDEX user_memories${set}_changed ON forged.user_memories${set} (user_id, changed);
CREATE INDEX agent_memories${set}_changed ON forged.agent_memories${set} (agent_id, changed);
CREATE INDEX user_memories${set}_replaced ON forged.user_memories${set} (user_id, supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX agent_memories${set}_replaced ON forged.agent_memories${set} (agent_id, supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX organizational_memories${set}_document ON forged.organizational_memories${set} (document_id, chunk_index);
CREATE INDEX organizational_memories${set}_newest ON forged.organizational_memories${set} (created_at DESC, id);
CREATE INDEX organizational_memories${set}_source ON forged.organizational_memories${set} USING hash (source);

-- Rows of a session are seen by its user, and by whoever wrote them. Nobody writes in another's name, or puts a
-- row before another user's eyes.
ALTER TABLE forged.session_memories${set} ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set} ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set} ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.organizational_memories${set} ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON forged.session_memories${set}
    USING (written_by = current_user OR forged.may('user', user_id))
    WITH CHECK (written_by = current_user AND (user_id IS NULL OR forged.may('user', user_id)));
CREATE POLICY own ON forged.user_memories${set}
    USING (forged.may('user', user_id)) WITH CHECK (forged.may('user', user_id));
CREATE POLICY own ON forged.agent_memories${set}
    USING (forged.may('agent', agent_id)) WITH CHECK (forged.may('agent', agent_id));
-- Of an agent of the team, only the user who wrote a row forgets it for all.
CREATE POLICY author ON forged.agent_memories${set} AS RESTRICTIVE FOR DELETE
    USING (strpos(agent_id, '/') > 0 OR user_id IS NULL OR forged.may('user', user_id));
CREATE POLICY everybody ON forged.organizational_memories${set} FOR SELECT USING (true);
CREATE POLICY own ON forged.organizational_memories${set}
    USING (forged.may('org', '')) WITH CHECK (forged.may('org', ''));

-- A partition has no policy: nobody but the administrator gets at its rows by its own name.
ALTER TABLE forged.session_memories${set}_00 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_01 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_02 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_03 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_04 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_05 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_06 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_07 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_08 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_09 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_10 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_11 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_12 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_13 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_14 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories${set}_15 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_00 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_01 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_02 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_03 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_04 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_05 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_06 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_07 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_08 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_09 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_10 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_11 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_12 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_13 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_14 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories${set}_15 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_00 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_01 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_02 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_03 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_04 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_05 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_06 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_07 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_08 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_09 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_10 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_11 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_12 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_13 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_14 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories${set}_15 ENABLE ROW LEVEL SECURITY;
