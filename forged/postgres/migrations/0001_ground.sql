-- What there is once, however many embedding models are in use. ${dimension} is the number of numbers in a
-- vector of the main one.
--
-- No statement here refers to another table by a foreign key that would cross owners, so that a distributed
-- server can place every row by its owner alone.

-- What changed last: a number from here is written with every change, for those who ask what is new.
CREATE SEQUENCE forged.changes;

-- What was forgotten: it beats any replica that comes later. `owner` is a user's or agent's id, "" of the organization.
CREATE TABLE forged.tombstones (
    scope text NOT NULL,
    owner text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL DEFAULT 'chain',
    changed bigint NOT NULL DEFAULT 0,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, scope, id)
);
CREATE INDEX tombstones_changed ON forged.tombstones (owner, scope, changed);

-- Entities of one owner, with how they relate and which of the owner's memories speak of them.
CREATE TABLE forged.entities (
    scope text NOT NULL,
    owner text NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    type text NOT NULL DEFAULT '',
    description text NOT NULL DEFAULT '',
    embedding vector(${dimension}),
    PRIMARY KEY (owner, scope, id)
);
-- Wider names under which an entity with a number in its name is found too: Java 21 as Java.
CREATE TABLE forged.entity_aliases (
    scope text NOT NULL,
    owner text NOT NULL,
    alias text NOT NULL,
    entity_id text NOT NULL,
    PRIMARY KEY (owner, scope, alias, entity_id)
);
CREATE INDEX entity_aliases_back ON forged.entity_aliases (owner, scope, entity_id);
CREATE TABLE forged.relationships (
    scope text NOT NULL,
    owner text NOT NULL,
    source_id text NOT NULL,
    target_id text NOT NULL,
    relation_type text NOT NULL,
    memory_id text NOT NULL,
    description text NOT NULL DEFAULT '',
    weight real NOT NULL DEFAULT 1.0,
    PRIMARY KEY (owner, scope, memory_id, source_id, target_id, relation_type)
);
CREATE INDEX relationships_on ON forged.relationships (owner, scope, source_id);
CREATE INDEX relationships_back ON forged.relationships (owner, scope, target_id);
CREATE TABLE forged.memory_entities (
    scope text NOT NULL,
    owner text NOT NULL,
    memory_id text NOT NULL,
    entity_id text NOT NULL,
    PRIMARY KEY (owner, scope, memory_id, entity_id)
);
CREATE INDEX memory_entities_back ON forged.memory_entities (owner, scope, entity_id);

-- Writers of an owner's rows wait for one another by a row here, which nobody can hold who may not write these rows.
-- Documents have several, so that writers of different ones need not wait.
CREATE TABLE forged.locks (
    scope text NOT NULL,
    owner text NOT NULL,
    slot integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, scope, slot)
);
-- Which daemons have written rows of an owner, and when last.
CREATE TABLE forged.writers (
    scope text NOT NULL,
    owner text NOT NULL,
    daemon text NOT NULL CHECK (length(daemon) <= 100),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, scope, daemon)
);

-- What names of this database's roles begin with: roles are the server's, and its databases share them. In a copy
-- of the database under another name nobody owns anything until it is granted again.
CREATE FUNCTION forged.realm() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN 'forged_' || left(encode(sha256(convert_to(current_database(), 'UTF8')), 'hex'), 8);

-- The role whose members own what is of this owner. Its name holds a digest, as names of roles are short.
CREATE FUNCTION forged.role_of(scope text, owner text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN forged.realm() || '_' || left(encode(sha256(convert_to(scope || ' ' || owner, 'UTF8')), 'hex'), 40);

-- Whether who asks was granted what is of this owner. An agent USER/AGENT is the user's: a new one needs no grant.
CREATE FUNCTION forged.may(scope text, owner text) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN coalesce(pg_has_role(to_regrole(
        CASE WHEN scope = 'agent' AND strpos(owner, '/') > 0
        THEN forged.role_of('user', regexp_replace(owner, '/[^/]*$$', ''))
        ELSE forged.role_of(scope, owner) END), 'usage'), false);

-- Roles that were granted something see their own rows alone, and what is of everybody. The owner of the tables
-- is their administrator, whom nothing holds back.
ALTER TABLE forged.tombstones ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.entities ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.entity_aliases ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.relationships ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.memory_entities ENABLE ROW LEVEL SECURITY;

ALTER TABLE forged.locks ENABLE ROW LEVEL SECURITY;
ALTER TABLE forged.writers ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON forged.locks USING (forged.may(scope, owner)) WITH CHECK (forged.may(scope, owner));
CREATE POLICY own ON forged.writers USING (forged.may(scope, owner)) WITH CHECK (forged.may(scope, owner));
CREATE POLICY everybody ON forged.writers FOR SELECT USING (scope = 'org');
CREATE POLICY own ON forged.tombstones USING (forged.may(scope, owner)) WITH CHECK (forged.may(scope, owner));
CREATE POLICY own ON forged.entities USING (forged.may(scope, owner)) WITH CHECK (forged.may(scope, owner));
CREATE POLICY own ON forged.entity_aliases USING (forged.may(scope, owner)) WITH CHECK (forged.may(scope, owner));
CREATE POLICY own ON forged.relationships USING (forged.may(scope, owner)) WITH CHECK (forged.may(scope, owner));
CREATE POLICY own ON forged.memory_entities USING (forged.may(scope, owner)) WITH CHECK (forged.may(scope, owner));
CREATE POLICY everybody ON forged.tombstones FOR SELECT USING (scope = 'org');
CREATE POLICY everybody ON forged.entities FOR SELECT USING (scope = 'org');
CREATE POLICY everybody ON forged.entity_aliases FOR SELECT USING (scope = 'org');
CREATE POLICY everybody ON forged.relationships FOR SELECT USING (scope = 'org');
CREATE POLICY everybody ON forged.memory_entities FOR SELECT USING (scope = 'org');
