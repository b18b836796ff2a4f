-- What a program can read: an odd value costs the row that has it, and is refused here. Rows from before stay; they are
-- left out of answers, and `forgectl shared doctor` counts them.
ALTER TABLE forged.session_memories ADD CONSTRAINT session_memories_readable CHECK (
    jsonb_typeof(metadata) = 'object' AND isfinite(created_at) AND isfinite(expires_at)
    AND importance_score >= 0 AND importance_score <= 1 AND octet_length(content) <= 262144) NOT VALID;
ALTER TABLE forged.user_memories ADD CONSTRAINT user_memories_readable CHECK (
    jsonb_typeof(metadata) = 'object' AND isfinite(created_at) AND isfinite(updated_at) AND isfinite(last_accessed)
    AND importance_score >= 0 AND importance_score <= 1
    AND octet_length(content) <= 262144 AND octet_length(file) <= 262144) NOT VALID;
ALTER TABLE forged.agent_memories ADD CONSTRAINT agent_memories_readable CHECK (
    jsonb_typeof(metadata) = 'object' AND isfinite(created_at) AND isfinite(updated_at) AND isfinite(last_accessed)
    AND importance_score >= 0 AND importance_score <= 1
    AND octet_length(content) <= 262144 AND octet_length(file) <= 262144) NOT VALID;
ALTER TABLE forged.organizational_memories ADD CONSTRAINT organizational_memories_readable CHECK (
    jsonb_typeof(metadata) = 'object' AND isfinite(created_at) AND octet_length(content) <= 262144
    AND octet_length(source) <= 4096) NOT VALID;
