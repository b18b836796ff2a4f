"""The daemon's process: what it is made of, its socket, and the handlers of its requests."""
