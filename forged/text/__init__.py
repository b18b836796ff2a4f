"""What is done to text: pure functions that know no other part of forged.

The package exports nothing: each module stands for itself and is imported by its own name.
"""
