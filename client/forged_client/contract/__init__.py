"""Messages of the wire contract, grouped by topic; import them from protocol.py."""
