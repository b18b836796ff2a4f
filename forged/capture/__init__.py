"""Finished turns become memory files: the queue, its worker process, and what decides what to keep.

The daemon accepts an event and owns the queue (`pipeline`, `queue`, `spool`); one spawned worker gets one
event at a time (`supervisor`, `worker`), asks a classifier (`rules`, `llm`), and writes what is left after
validation (`documents`). Capture never talks to the indexer: it writes files (design.md section 6
"Capture", ADR-0046).
"""
