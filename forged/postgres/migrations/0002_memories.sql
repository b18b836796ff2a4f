-- Memories by scope. ${dimension} is the number of numbers in a vector of the main embedding model. A row in Chinese,
-- Japanese or Korean has its vector in `embedding_cjk`, where a database has a second model for these languages.
--
-- Sessions, users and agents own what is theirs: their tables have the key (owner, id) and are partitioned by the
-- owner, so that one recall touches one partition of each and a distributed server can place them by it.
-- The organization's pieces of documents are one table.

CREATE TABLE forged.session_memories (
    session_id text NOT NULL,
    id text NOT NULL,
    agent_id text NOT NULL,
    user_id text,
    content text NOT NULL,
    embedding vector(${dimension}),
    embedding_cjk vector,
    importance_score real NOT NULL DEFAULT 1.0,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL DEFAULT now() + interval '1 hour',
    metadata jsonb NOT NULL DEFAULT '{}',
    written_by text NOT NULL DEFAULT current_user,
    PRIMARY KEY (session_id, id)
) PARTITION BY HASH (session_id);

-- A version of a memory of a user is one row, and `file` is the whole of its file: the files of the user's machines
-- are the truth, and every machine can write each of them again. `is_head`: no other version replaces it.
CREATE TABLE forged.user_memories (
    user_id text NOT NULL,
    id text NOT NULL,
    agent_id text NOT NULL,
    content text NOT NULL,
    embedding vector(${dimension}),
    embedding_cjk vector,
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
CREATE TABLE forged.agent_memories (
    agent_id text NOT NULL,
    id text NOT NULL,
    user_id text,
    content text NOT NULL,
    embedding vector(${dimension}),
    embedding_cjk vector,
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

CREATE TABLE forged.organizational_memories (
    id text PRIMARY KEY,
    agent_id text NOT NULL,
    source text NOT NULL DEFAULT '',
    content text NOT NULL,
    embedding vector(${dimension}),
    embedding_cjk vector,
    chunk_index integer NOT NULL DEFAULT 0,
    document_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    metadata jsonb NOT NULL DEFAULT '{}'
);
-- A piece is longer than a memory, and its vector would be stored away from its row, where a comparison of thousands
-- takes twice as long. Its text is stored away instead, of which a search reads few.
ALTER TABLE forged.organizational_memories ALTER COLUMN embedding SET STORAGE MAIN,
    ALTER COLUMN embedding_cjk SET STORAGE MAIN;

-- Every answer counts its rows of users and agents. With room left on its page a row is counted where it lies; without,
-- it moves, and its vector is put into the graph once more, which takes five times as long.
CREATE TABLE forged.session_memories_00 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 0);
CREATE TABLE forged.session_memories_01 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 1);
CREATE TABLE forged.session_memories_02 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 2);
CREATE TABLE forged.session_memories_03 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 3);
CREATE TABLE forged.session_memories_04 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 4);
CREATE TABLE forged.session_memories_05 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 5);
CREATE TABLE forged.session_memories_06 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 6);
CREATE TABLE forged.session_memories_07 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 7);
CREATE TABLE forged.session_memories_08 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 8);
CREATE TABLE forged.session_memories_09 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 9);
CREATE TABLE forged.session_memories_10 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 10);
CREATE TABLE forged.session_memories_11 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 11);
CREATE TABLE forged.session_memories_12 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 12);
CREATE TABLE forged.session_memories_13 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 13);
CREATE TABLE forged.session_memories_14 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 14);
CREATE TABLE forged.session_memories_15 PARTITION OF forged.session_memories FOR VALUES WITH (MODULUS 16, REMAINDER 15);

CREATE TABLE forged.user_memories_00 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 0) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_01 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 1) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_02 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 2) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_03 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 3) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_04 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 4) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_05 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 5) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_06 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 6) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_07 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 7) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_08 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 8) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_09 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 9) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_10 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 10) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_11 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 11) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_12 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 12) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_13 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 13) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_14 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 14) WITH (fillfactor = 80);
CREATE TABLE forged.user_memories_15 PARTITION OF forged.user_memories FOR VALUES WITH (MODULUS 16, REMAINDER 15) WITH (fillfactor = 80);

CREATE TABLE forged.agent_memories_00 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 0) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_01 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 1) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_02 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 2) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_03 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 3) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_04 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 4) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_05 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 5) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_06 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 6) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_07 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 7) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_08 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 8) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_09 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 9) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_10 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 10) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_11 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 11) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_12 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 12) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_13 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 13) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_14 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 14) WITH (fillfactor = 80);
CREATE TABLE forged.agent_memories_15 PARTITION OF forged.agent_memories FOR VALUES WITH (MODULUS 16, REMAINDER 15) WITH (fillfactor = 80);

-- Nearest vectors by a graph, which needs no training: lists of an ivfflat index that is made on an empty table are
-- of nothing, and find a sixth of what they should. A session's rows are few, and all of them are compared.
CREATE INDEX user_memories_near ON forged.user_memories USING hnsw (${indexed}) WITH (m = 16, ef_construction = 64);
CREATE INDEX agent_memories_near ON forged.agent_memories USING hnsw (${indexed}) WITH (m = 16, ef_construction = 64);
CREATE INDEX organizational_memories_near ON forged.organizational_memories USING hnsw (${indexed}) WITH (m = 16, ef_construction = 64);

CREATE INDEX session_memories_metadata ON forged.session_memories USING gin (metadata jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX user_memories_metadata ON forged.user_memories USING gin (metadata jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX agent_memories_metadata ON forged.agent_memories USING gin (metadata jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX organizational_memories_metadata ON forged.organizational_memories USING gin (metadata jsonb_path_ops) WITH (fastupdate = off);

-- Rows whose vector is missing, which is added later.
CREATE INDEX user_memories_bare ON forged.user_memories (user_id, id) WHERE embedding IS NULL AND embedding_cjk IS NULL;
CREATE INDEX agent_memories_bare ON forged.agent_memories (agent_id, id) WHERE embedding IS NULL AND embedding_cjk IS NULL;
CREATE INDEX organizational_memories_bare ON forged.organizational_memories (id) WHERE embedding IS NULL AND embedding_cjk IS NULL;

CREATE INDEX session_memories_expiry ON forged.session_memories (expires_at);
CREATE INDEX user_memories_changed ON forged.user_memories (user_id, changed);
CREATE INDEX agent_memories_changed ON forged.agent_memories (agent_id, changed);
CREATE INDEX user_memories_replaced ON forged.user_memories (user_id, supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX agent_memories_replaced ON forged.agent_memories (agent_id, supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX organizational_memories_document ON forged.organizational_memories (document_id, chunk_index);
CREATE INDEX organizational_memories_newest ON forged.organizational_memories (created_at DESC, id);
CREATE INDEX organizational_memories_source ON forged.organizational_memories USING hash (source);

-- Rows of a session are seen by its user, and by whoever wrote them. Nobody writes in another's name, or puts a
-- row before another user's eyes.
ALTER TABLE forged.session_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.organizational_memories ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON forged.session_memories
    USING (written_by = current_user OR forged.may('user', user_id))
    WITH CHECK (written_by = current_user AND (user_id IS NULL OR forged.may('user', user_id)));
CREATE POLICY own ON forged.user_memories
    USING (forged.may('user', user_id)) WITH CHECK (forged.may('user', user_id));
CREATE POLICY own ON forged.agent_memories
    USING (forged.may('agent', agent_id)) WITH CHECK (forged.may('agent', agent_id));
-- Of an agent of the team, only the user who wrote a row forgets it for all.
CREATE POLICY author ON forged.agent_memories AS RESTRICTIVE FOR DELETE
    USING (strpos(agent_id, '/') > 0 OR user_id IS NULL OR forged.may('user', user_id));
CREATE POLICY everybody ON forged.organizational_memories FOR SELECT USING (true);
CREATE POLICY own ON forged.organizational_memories
    USING (forged.may('org', '')) WITH CHECK (forged.may('org', ''));

-- A partition has no policy: nobody but the administrator gets at its rows by its own name.
ALTER TABLE forged.session_memories_00 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_01 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_02 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_03 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_04 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_05 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_06 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_07 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_08 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_09 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_10 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_11 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_12 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_13 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_14 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.session_memories_15 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_00 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_01 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_02 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_03 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_04 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_05 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_06 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_07 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_08 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_09 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_10 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_11 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_12 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_13 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_14 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.user_memories_15 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_00 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_01 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_02 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_03 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_04 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_05 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_06 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_07 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_08 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_09 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_10 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_11 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_12 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_13 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_14 ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.agent_memories_15 ENABLE ROW LEVEL SECURITY;
