"""A replay of some 300 requests, held to a recording of them: the net under code that moves.

`story` asks, `player` sends and writes down, `recording.jsonl` holds the answers of an earlier commit.
`python -m tests.replay` makes it anew. `renamed.py` lists names that changed since.
"""
