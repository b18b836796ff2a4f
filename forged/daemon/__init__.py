"""The daemon's process: its parts, its socket, and the handlers of its requests."""
