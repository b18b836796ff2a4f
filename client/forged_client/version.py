"""The client's version, alone in a module so that it costs nothing to read."""

__version__ = "0.1.0"
