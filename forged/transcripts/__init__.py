"""Read transcripts: past sessions that harnesses wrote to disk, of any version, even damaged.

`sessions` lists them; `read` and `read_tail` return a `PastSession`. It has user and assistant prose only: no
tool content, thought, harness text, or injected memory.
"""

from forged.transcripts.files import TranscriptError
from forged.transcripts.formats import FORMATS
from forged.transcripts.past_session import PastSession
from forged.transcripts.reading import FoundSession, read, read_tail, sessions

__all__ = ["FORMATS", "FoundSession", "PastSession", "TranscriptError", "read", "read_tail", "sessions"]
