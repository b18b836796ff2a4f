"""Worker of the tests: a real supervisor over a worker process, and tasks for it.

`supervised` starts a supervisor whose worker is the real one or `scripted`, which follows its settings and
tasks; all reports are recorded. At the end the supervisor is cancelled and its worker killed. `census`
counts the resources of this process, and `back_to` waits until they are no more than before. `roots_in`,
`classify_task` and `block` make tasks and failures under a test's own directory.
"""

from tests.support.scripted_worker import CALL, scripted
from tests.support.worker.supervised import back_to, census, semaphores, supervised
from tests.support.worker.tasks import block, classify_task, roots_in

__all__ = [
    "CALL",
    "back_to",
    "block",
    "census",
    "classify_task",
    "roots_in",
    "scripted",
    "semaphores",
    "supervised",
]
