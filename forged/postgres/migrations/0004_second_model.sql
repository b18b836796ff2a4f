-- A second embedding model, for rows in Chinese, Japanese and Korean: ${cjk_dimension} numbers in a vector. Only a
-- database whose administrator has such a model gets these.
CREATE INDEX user_memories_near_cjk ON forged.user_memories USING hnsw (${cjk_indexed}) WITH (m = 16, ef_construction = 64);
CREATE INDEX agent_memories_near_cjk ON forged.agent_memories USING hnsw (${cjk_indexed}) WITH (m = 16, ef_construction = 64);
CREATE INDEX organizational_memories_near_cjk ON forged.organizational_memories USING hnsw (${cjk_indexed}) WITH (m = 16, ef_construction = 64);

-- Rows that may still have a vector of the first model; a program decides by its own rule.
CREATE INDEX user_memories_crossed ON forged.user_memories (user_id, id) WHERE embedding IS NOT NULL AND content ~ '${cjk_letters}';
CREATE INDEX agent_memories_crossed ON forged.agent_memories (agent_id, id) WHERE embedding IS NOT NULL AND content ~ '${cjk_letters}';
CREATE INDEX organizational_memories_crossed ON forged.organizational_memories (id) WHERE embedding IS NOT NULL AND content ~ '${cjk_letters}';
