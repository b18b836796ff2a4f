"""What harnesses have written down of past sessions, of whatever version and however damaged.

`sessions` lists them, `read` and `read_tail` make a `PastSession` of one: user and assistant prose alone,
never the content of a tool, a thought, what the harness wrote, or a memory that was injected.
"""

from forged.transcripts.files import TranscriptError
from forged.transcripts.formats import FORMATS
from forged.transcripts.past_session import PastSession
from forged.transcripts.reading import FoundSession, read, read_tail, sessions

__all__ = ["FORMATS", "FoundSession", "PastSession", "TranscriptError", "read", "read_tail", "sessions"]
