"""Replace passwords, keys and tokens in a text by `[redacted]`, or name their shapes."""

from forged.text.redaction.scanning import INLINE_LENGTH, redact, shapes_in
from forged.text.redaction.value_form import PLACEHOLDER

__all__ = ["INLINE_LENGTH", "PLACEHOLDER", "redact", "shapes_in"]
