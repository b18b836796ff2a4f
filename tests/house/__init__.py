"""Counts of the source and of its flows: a developer's tool, run by `make house`.

`counts` counts the source. For the flows a real daemon, its capture worker and a client process run under
`sys.setprofile` in a scratch HOME: `flows` has the requests, `stage` runs and records them, and `traces`
reads the output of `hook/sitecustomize.py` in each process. `limits` compares everything with `limits.toml`,
and `report` prints it.
"""
