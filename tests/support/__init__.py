"""What several test modules share: one file per kind of helper."""
