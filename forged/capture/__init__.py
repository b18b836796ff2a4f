"""Finished turns become memory files: the queue, its worker process, and what decides what to keep.

    the daemon                                                       the worker, spawned, one event at a time
    intake -> pipeline -> queue | shelf -> spool, dead
                 |
              handover -> gate, hand -> supervisor -> incarnation == Queue ==> worker -> rules | llm
                 ^                                       |                        |
                 +------------- reports -----------------+ <===== Pipe ==== documents -> journal -> files

`intake` cuts out what must not come in, `pipeline` acknowledges, `queue` holds the line and `shelf` what is
on disk; `handover` gives the worker one event and ends it once. Capture never talks to the indexer: it
writes files (design.md section 6 "Capture", ADR-0046).
"""
