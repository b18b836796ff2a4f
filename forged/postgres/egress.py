"""Prepare rows for egress: without secrets and private spans, within agreed limits.

Every text of a row passes the egress guard, as it does on the way to a model. A file with a cut text is not
sent as a file; its redacted text is sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from forged.errors import SharedError
from forged.models import EgressGuard, sendable
from forged.postgres.failures import wrong_dimension
from forged.postgres.values import EmbeddingModel, Stored

MOST_METADATA, MOST_KEYS = 4096, 32
_TEXTS, _FACTS = ("content", "category"), ("agent_id", "user_id", "memory_type", "source")


async def redacted_rows(
    rows: Sequence[Stored], egress: EgressGuard, models: Mapping[str, EmbeddingModel], now: datetime
) -> list[Stored]:
    """Return rows without secrets and private spans, ready to send. Raises SharedError if one is invalid."""
    return [await _redacted_row(row, egress, models, now) for row in rows]


async def _redacted_row(
    row: Stored, egress: EgressGuard, models: Mapping[str, EmbeddingModel], now: datetime
) -> Stored:
    """Return a row redacted and with times; a changed text loses its vector, a changed file is left out."""
    if any("\0" in name for name in (row.owner, row.id, row.document_id, row.supersedes)):
        raise SharedError(
            "a name of a shared memory has a character that no database takes", reason="invalid"
        )
    model = models.get(row.model)
    if row.vector is not None and model is not None and len(row.vector) != model.dimension:
        raise wrong_dimension(model.dimension, len(row.vector))
    texts = [sendable(getattr(row, name)) for name in _TEXTS]
    texts += [sendable(getattr(row.facts, name)) for name in _FACTS]
    metadata = _metadata_json(row.facts.metadata)
    file = None if row.file is None else row.file.decode("utf-8", "replace")
    *clean, clean_metadata, clean_file = await egress.cleared([*texts, metadata, file or ""])
    changes: dict[str, Any] = dict(zip(_TEXTS, clean[: len(_TEXTS)], strict=True))
    facts: dict[str, Any] = dict(zip(_FACTS, clean[len(_TEXTS) :], strict=True))
    facts["metadata"] = _metadata_of_json(clean_metadata)
    changes["facts"] = msgspec.structs.replace(row.facts, **facts)
    if clean_file != (file or ""):
        changes["file"] = None
    if changes["content"] != row.content:
        changes["vector"] = None  # it belongs to another text
    created_at = row.created_at or now
    changes |= {"created_at": created_at, "updated_at": row.updated_at or created_at}
    return msgspec.structs.replace(row, **changes)


def _metadata_json(metadata: Mapping[str, Any]) -> str:
    """Return a row's metadata as JSON without NUL. Raises SharedError for over 32 keys or 4,096 bytes."""
    text = sendable(json.dumps(metadata, ensure_ascii=False))
    if len(metadata) > MOST_KEYS or len(text.encode()) > MOST_METADATA:
        raise SharedError(
            f"the metadata of a memory has at most {MOST_KEYS} keys and {MOST_METADATA} bytes",
            reason="invalid",
        )
    return text.replace("\\u0000", "\\ufffd")


def _metadata_of_json(metadata: str) -> dict[str, Any]:
    """Return the metadata in redacted JSON text; {} if redaction broke the JSON."""
    try:
        found = json.loads(metadata)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def egress_texts(rows: Sequence[Stored]) -> list[str]:
    """Return the contents and sources of rows, the texts that the egress check and record count."""
    return [text for row in rows for text in (row.content, row.facts.source) if text]
