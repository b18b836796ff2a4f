"""What of a repository counts, and whom a person trusts.

    Trust -> admission   what of a root counts: the one step between the files and every map, model and list
             brought     who brought a file into a trusted repository
             git         git as an instrument that reads
             identity    which directory on which disk a root is
             presenting  what is shown of a memory: no secret, and the origin that is believed
             walk        roots with memories below a directory that a person named

Records live in `state.db` and are never derived from the bytes of a repository. Git is run in trusted
repositories only.
"""

from forged.trust.admission import Admitted, Withheld
from forged.trust.registry import MODES, KnownRoot, Stamp, Trust, own_bytes, own_file

__all__ = ["MODES", "Admitted", "KnownRoot", "Stamp", "Trust", "Withheld", "own_bytes", "own_file"]
