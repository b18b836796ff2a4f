"""Text processing: pure functions without dependencies on other parts of forged.

The package exports nothing; import each module by its own name.
"""
