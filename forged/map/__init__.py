"""Searching memories: frozen vector maps and pure functions over them, without any I/O."""
