"""Stores: what a request may search, and the one search over all of them."""

from forged.map import Ranked
from forged.stores.recall import RecallSearch, compared_by, is_asked_for
from forged.stores.resolver import Resolver, Workplace
from forged.stores.search import StoreSearch
from forged.stores.second_model import CjkSource, SecondModel
from forged.stores.session_memories import SessionMemories, SessionMemory, in_session
from forged.stores.session_views import SessionViews, facts_in_session, root_of_session
from forged.stores.store import FileStore, SearchedStore, Store, View
from forged.stores.values import FIRST_BUILD, GIVEN, Limits, Question, Rows

__all__ = [
    "FIRST_BUILD",
    "GIVEN",
    "CjkSource",
    "FileStore",
    "Limits",
    "Question",
    "Ranked",
    "RecallSearch",
    "Resolver",
    "Rows",
    "SearchedStore",
    "SecondModel",
    "SessionMemories",
    "SessionMemory",
    "SessionViews",
    "Store",
    "StoreSearch",
    "View",
    "Workplace",
    "compared_by",
    "facts_in_session",
    "in_session",
    "is_asked_for",
    "root_of_session",
]
