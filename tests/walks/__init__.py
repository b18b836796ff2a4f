"""Which files a flow of data really enters: a developer's tool, run by `make flows`.

A real daemon, its capture worker and a client process run under `sys.setprofile` in a scratch HOME; `flows`
says what is asked of them, `stage` runs and records it, `traces` reads what `hook/sitecustomize.py` noted in
each process, `report` prints it and keeps the section of the architecture page.
"""
