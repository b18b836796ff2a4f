"""What of a repository counts, and whom a person trusts.

`admission` decides what of a root counts, `provenance` who wrote it, and `excluding` keeps captures out of
commits. Records live in `state.db` and are never derived from the bytes of a repository. Git is run in
repositories that are trusted, or that had no memories at the first look and whose `.git` is the user's.
"""

from forged.trust.admission import Admitted, Stamp
from forged.trust.exclude_file import ExcludeError
from forged.trust.excluding import CHOICES
from forged.trust.identity import elsewhere, is_same, stored_identity
from forged.trust.registry import MODES, KnownRoot, TrustRegistry

__all__ = [
    "CHOICES",
    "MODES",
    "Admitted",
    "ExcludeError",
    "KnownRoot",
    "Stamp",
    "TrustRegistry",
    "elsewhere",
    "is_same",
    "stored_identity",
]
