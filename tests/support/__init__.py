"""Test environments: a real daemon, a scripted provider, a supervised worker, and the clock.

Import each from its package. Helpers of only one test directory are in that directory, and test data
(memories, conversations, messages, secrets) is in `tests/data`.
"""
