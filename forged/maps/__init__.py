"""How the vector map of every root is kept current with its files."""
