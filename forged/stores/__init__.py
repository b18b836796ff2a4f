"""Stores of memories that a request may search, and the one search over all of them."""

from forged.map import Ranked
from forged.stores.recall import RecallSearch, comparison_key, matches_filters
from forged.stores.resolver import Resolver, Workplace
from forged.stores.search import StoreSearch
from forged.stores.second_model import CjkSearcher, SecondModel
from forged.stores.session_memories import SessionMemories, SessionMemory, new_session_memory
from forged.stores.session_views import SessionViews, facts_in_session, root_of_session
from forged.stores.store import FileStore, RemoteStore, Store, View
from forged.stores.values import FIRST_BUILD, GIVEN, Limits, Question, SearchResult

__all__ = [
    "FIRST_BUILD",
    "GIVEN",
    "CjkSearcher",
    "FileStore",
    "Limits",
    "Question",
    "Ranked",
    "RecallSearch",
    "RemoteStore",
    "Resolver",
    "SearchResult",
    "SecondModel",
    "SessionMemories",
    "SessionMemory",
    "SessionViews",
    "Store",
    "StoreSearch",
    "View",
    "Workplace",
    "comparison_key",
    "facts_in_session",
    "matches_filters",
    "new_session_memory",
    "root_of_session",
]
