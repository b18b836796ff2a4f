"""Trust in repositories: decides which memory files count, by records and by git.

`admission` decides which files of a root count, `provenance` who wrote a file, and `excluding` keeps captures
out of commits. Records are in `state.db` and are never derived from the bytes of a repository. Git runs only
in trusted repositories, or in those of this user that had no memories at the first look.
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
