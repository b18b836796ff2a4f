"""The demo: `steps` run on a `stage`, with an `agent` in processes of its own."""
