"""Four stages on which tests play: a real daemon, a scripted provider, a supervised worker, and the clock.

Each is imported by its door. What only one directory of tests needs lies beside them, and what is put on a
stage (memories, conversations, messages, secrets) lies in `tests/data`.
"""
