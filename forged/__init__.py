"""forged: one long-term memory for every coding agent on a machine."""

__version__ = "0.1.0"
