"""What harnesses have written down of past sessions, of whatever version and however damaged.

`sessions` lists them, `read` and `read_tail` make a `Session` of one: user and assistant prose alone, never
the content of a tool, a thought, what the harness wrote, or a memory that was injected.
"""

from forged.transcripts.files import TranscriptError
from forged.transcripts.formats import FORMATS
from forged.transcripts.reading import FoundSession, read, read_tail, sessions
from forged.transcripts.session import Session

__all__ = ["FORMATS", "FoundSession", "Session", "TranscriptError", "read", "read_tail", "sessions"]
