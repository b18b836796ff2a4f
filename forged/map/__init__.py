"""Searching memories: frozen maps, one search over them, and how much of what it found is to the point.

Pure functions over values in memory, without any I/O. A builder makes a `VectorMap` of its parts; a request
takes a `View` of some maps and calls `search`, and `relevance.read` weighs what was `Found`.
"""
