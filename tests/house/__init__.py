"""Counts of the source and of flows: a developer's tool, run by `make house`.

`counts` counts the source as it is written. For the flows a real daemon, its capture worker and a client
process run under `sys.setprofile` in a scratch HOME: `flows` says what is asked of them, `stage` runs and
records it, `traces` reads what `hook/sitecustomize.py` noted in each process. `limits` holds all of it
against `limits.toml`, and `report` prints it.
"""
