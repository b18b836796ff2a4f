-- Memories by scope, in the schema `forged`. ${dimension} is the number of numbers in a vector.
--
-- Sessions, users and agents own what is theirs: their tables have the key (owner, id) and are partitioned by the
-- owner, so that one recall touches one partition of each and a distributed server can place them by it.
-- The organization's pieces of documents are one table. Nothing here refers to another table by a foreign key
-- that would cross owners.

CREATE TABLE forged.session_memories (
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
CREATE TABLE forged.user_memories (
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

CREATE TABLE forged.agent_memories (
    agent_id text NOT NULL,
    id text NOT NULL,
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

CREATE TABLE forged.organizational_memories (
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

-- What was forgotten: it beats any replica that comes later. `owner` is a user's or agent's id, "" of the organization.
CREATE TABLE forged.tombstones (
    scope text NOT NULL,
    owner text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL DEFAULT 'chain',
    changed bigint NOT NULL DEFAULT 0,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, owner, id)
);

-- Entities of one owner, with how they relate and which of the owner's memories speak of them.
CREATE TABLE forged.entities (
    owner text NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    type text NOT NULL DEFAULT '',
    description text NOT NULL DEFAULT '',
    embedding vector(${dimension}),
    PRIMARY KEY (owner, id)
);
CREATE TABLE forged.relationships (
    owner text NOT NULL,
    source_id text NOT NULL,
    target_id text NOT NULL,
    relation_type text NOT NULL,
    description text NOT NULL DEFAULT '',
    weight real NOT NULL DEFAULT 1.0,
    PRIMARY KEY (owner, source_id, target_id, relation_type)
);
CREATE TABLE forged.memory_entities (
    owner text NOT NULL,
    memory_id text NOT NULL,
    entity_id text NOT NULL,
    PRIMARY KEY (owner, memory_id, entity_id)
);
