"""Thin client of forged, the long-term memory of every coding agent on a machine.

    from forged_client import Client

    with Client() as forged:
        text = forged.retrieve("/path/of/workspace", messages, session_id="s1", turn_id="t1").text

No call raises or outlasts its deadline. Without a daemon, `text` is empty and `status` is "unavailable".

This package exports the replies and their parts. The requests, for `Client.ask`, are in
`forged_client.protocol`. Each name is imported when it is first used, because msgspec, asyncio and threading
each cost a hook process more time than its whole exchange with the daemon.
"""

# ruff: noqa: F403, F405 - `__all__` lists the exports of errors and protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forged_client.address import socket_path, state_dir
    from forged_client.aio import AsyncClient
    from forged_client.aio_observer import AsyncObserver
    from forged_client.client import Client
    from forged_client.errors import *
    from forged_client.observer import Observer
    from forged_client.protocol import *
    from forged_client.version import __version__

__all__ = [
    "AddressError",
    "AgentReport",
    "AsyncClient",
    "AsyncObserver",
    "CaptureReport",
    "Captured",
    "CapturedEntry",
    "CapturedPage",
    "Chain",
    "Client",
    "ClientError",
    "ConnectionLost",
    "ContentPart",
    "CopiesReport",
    "Costs",
    "DaemonAbsent",
    "DaemonEnded",
    "DaemonUnavailable",
    "DayCost",
    "DayEgress",
    "DeadEvent",
    "DeadEvents",
    "DeadlineExceeded",
    "Document",
    "DocumentOutcome",
    "DocumentRecord",
    "DocumentRemoved",
    "Documents",
    "Edge",
    "EgressReport",
    "EndpointReport",
    "Explained",
    "FileProblem",
    "Forgotten",
    "Found",
    "FrameTooLarge",
    "GateReport",
    "Ingested",
    "LocalFile",
    "MalformedFrame",
    "Memories",
    "MemoryRecord",
    "Message",
    "Moved",
    "Observer",
    "Paused",
    "Pong",
    "Progress",
    "Proposed",
    "ProtocolMismatch",
    "Ranking",
    "Rebuilt",
    "Recalled",
    "Rejected",
    "Relation",
    "Remembered",
    "Reply",
    "ReplyLost",
    "RequestFailed",
    "Restored",
    "Retrieved",
    "Reviewed",
    "RootReport",
    "RootTrust",
    "ScopeReport",
    "SettingReport",
    "SharedReport",
    "StatusReport",
    "SyncReport",
    "Trashed",
    "Trial",
    "Tried",
    "Trusted",
    "Undone",
    "Version",
    "WaitsElsewhere",
    "WithheldFile",
    "__version__",
    "socket_path",
    "state_dir",
]

_HOMES = {
    "AsyncClient": "aio",
    "AsyncObserver": "aio_observer",
    "Client": "client",
    "Observer": "observer",
    "__version__": "version",
    "socket_path": "address",
    "state_dir": "address",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    for home in [_HOMES[name]] if name in _HOMES else ["errors", "protocol"]:
        module = import_module(f"{__name__}.{home}")
        if hasattr(module, name):
            break
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
