"""Stores: what a request may search, and the one search over all of them."""

from forged.stores.file_search import FileSource
from forged.stores.search import FIRST_BUILD, Source, StoreSearch
from forged.stores.second_model import CjkSource, SecondModel
from forged.stores.session_memories import SessionMemories, SessionMemory, in_session
from forged.stores.session_views import SessionViews, root_of_session
from forged.stores.store import FileStore, Resolver, SearchedStore, Store, Workplace, facts_in_session
from forged.stores.values import (
    GIVEN,
    Limits,
    Question,
    Ranked,
    Rows,
    Stayed,
    View,
    compared_by,
    is_asked_for,
)

__all__ = [
    "FIRST_BUILD",
    "GIVEN",
    "CjkSource",
    "FileSource",
    "FileStore",
    "Limits",
    "Question",
    "Ranked",
    "Resolver",
    "Rows",
    "SearchedStore",
    "SecondModel",
    "SessionMemories",
    "SessionMemory",
    "SessionViews",
    "Source",
    "Stayed",
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
