"""What of a repository counts, and whom a person trusts.

    Trust -> admission   what of a root counts: the one step between the files and every map, model and list
             brought     who brought a file into a repository: its branch, the person, or git from elsewhere
             excluding   what forged captures is kept out of commits
             git         git as an instrument that reads
             identity    which directory on which disk a root is
             presenting  what is shown of a memory: no secret, and the origin that is believed
             walk        roots with memories below a directory that a person named

Records live in `state.db` and are never derived from the bytes of a repository. Git is run in repositories
that are trusted, or that had no memories at the first look and whose `.git` is the user's.
"""

from forged.trust.admission import Admitted
from forged.trust.excluding import CHOICES, ExcludeError
from forged.trust.identity import elsewhere, is_same, stored_identity
from forged.trust.registry import MODES, KnownRoot, Stamp, TrustRegistry, own_bytes

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
    "own_bytes",
    "stored_identity",
]
