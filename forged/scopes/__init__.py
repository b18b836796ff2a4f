"""What a request may search: the roots of its workspace, and whatever other source is asked beside them."""

from forged.scopes.cjk_views import CjkSource, CjkViews
from forged.scopes.file_source import FileSource
from forged.scopes.listing import newest
from forged.scopes.others import NotRead, OneSession, OtherScope, OtherSource
from forged.scopes.over_entities import OverEntities
from forged.scopes.resolve import Resolver, Workplace
from forged.scopes.session_memories import SessionMemories, SessionMemory, in_session
from forged.scopes.session_views import SessionViews, root_of_session
from forged.scopes.source import GIVEN, Question, Ranked, Rows, Source, Stayed
from forged.scopes.together import Waiting
from forged.scopes.view import FileRoots, View

__all__ = [
    "GIVEN",
    "CjkSource",
    "CjkViews",
    "FileRoots",
    "FileSource",
    "NotRead",
    "OneSession",
    "OtherScope",
    "OtherSource",
    "OverEntities",
    "Question",
    "Ranked",
    "Resolver",
    "Rows",
    "SessionMemories",
    "SessionMemory",
    "SessionViews",
    "Source",
    "Stayed",
    "View",
    "Waiting",
    "Workplace",
    "in_session",
    "newest",
    "root_of_session",
]
