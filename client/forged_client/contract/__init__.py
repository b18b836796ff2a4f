"""The messages of the wire by families. Everybody takes them from protocol.py, which has all by name."""
