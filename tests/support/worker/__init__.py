"""The worker stage: a real supervisor over a worker process, and tasks to give it.

`supervised` starts a supervisor whose worker is the real one or `scripted`, which does as its settings and
tasks say; all that comes of it is on record. At the end the supervisor is cancelled and its worker killed.
`census` counts what this process uses, and `back_to` waits until it is no more than before. `roots_in`,
`told` and `block` make tasks and trouble under a test's own directory.
"""

from tests.support.scripted_worker import CALL, scripted
from tests.support.worker.supervised import back_to, census, semaphores, supervised
from tests.support.worker.tasks import block, roots_in, told

__all__ = ["CALL", "back_to", "block", "census", "roots_in", "scripted", "semaphores", "supervised", "told"]
