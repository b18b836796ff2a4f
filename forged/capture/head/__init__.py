"""A small linear head: which of the things that a person typed will still matter, in seven languages.

It has numbers for the local model's vector of a text and for what stands in it; `tests/training` makes them.
"""
