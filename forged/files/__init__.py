"""Memories as files: the format, one directory of them on disk, atomic writes, and what changed."""
