"""The demo: `steps` are played on a `stage`, with an `agent` in processes of its own."""
