"""A PostgreSQL server with pgvector, where a team keeps what outgrows one machine."""
