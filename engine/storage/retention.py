"""The rules for what a store of outputs keeps, the place that durable ones go to, and warnings of those that do not."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from qoop.catalog.errors import DiskFull, QoopError
from qoop.catalog.sizes import size
from qoop.catalog.stores.objects import is_remote, open_objects
from qoop.catalog.value import value
from qoop.engine.events import Committed
from qoop.engine.notices import not_saved
from qoop.engine.storage.manifest import CheckpointDirectory, Saved, Unsaved, refuse_if_open
from qoop.engine.task import CheckpointKey, JobId

_WARNED = 1000  # jobs that are remembered, so that each gets one warning


@value
class Retention:
    """The rules for what a store keeps beyond need.

    directory: where durable outputs go, a folder of this machine or the URL of a store that machines share; None:
        nothing outlives the process. budget: bytes that it may take.
    retain: keep shared outputs that no job needs while there is space, for other queries.
    quarantine: where mismatches are written; None: in the temporary directory.
    always: make the digest of every shared output at once, not just where two meet.
    key: what lies in the directory must bear its seal; None: a checksum.
    pack: in a store that machines share, keep many outputs in one file where that saves requests.
    usual_budget: the budget is the usual one. strict: outputs that cannot be written are an error, not a warning.
    """

    directory: Path | str | None = None
    budget: int | None = None
    retain: bool = False
    quarantine: Path | None = None
    always: bool = False
    key: bytes | None = field(default=None, repr=False)
    pack: bool = True
    usual_budget: bool = False
    strict: bool = False

    @property
    def no_space(self) -> str:
        """The reason that an output found no space, as a clause with advice; empty where there is no budget."""
        if self.budget is None:
            return ""
        usual = " by default" if self.usual_budget else ""
        return (
            f"checkpoint_budget is {size(self.budget)}{usual}, and running queries need what is there: "
            "set it, or QOOP_CHECKPOINT_BUDGET, to more"
        )


KEEP_NOTHING = Retention()


class Checkpoints(Protocol):
    """A place of durable checkpoints. Thread-safe."""

    @property
    def far(self) -> bool:
        """True if another machine holds them."""
        ...

    @property
    def writers(self) -> int:
        """The number of outputs that are worth writing at a time."""
        ...

    def save(self, committed: Committed, partitions: Sequence[pa.Table], needed: bool = True) -> Saved | None:
        """Commit an output; one that exists stays. needed: it is not removed before `unpin`. None: there is no
        space for it. Raises DiskFull, and leaves nothing that is visible behind then."""
        ...

    def save_all(self, outputs: Sequence[Unsaved]) -> list[Saved | None]:
        """Commit outputs of one content, together where that is cheaper; as `save`."""
        ...

    def find_all(self, keys: Sequence[CheckpointKey]) -> list[Saved]:
        """Those of the keys that are there and can be believed; they are not removed before `unpin`."""
        ...

    def fetch(self, requested: Sequence[tuple[Saved, int | None]]) -> None:
        """These partitions (None: all of an output) will be read now."""
        ...

    def read(self, saved: Saved, number: int, folder: Path | None = None) -> pa.Table:
        """The rows of one partition, copied to that folder if they are many. Raises CheckpointError, DiskFull."""
        ...

    def unpin(self, keys: Sequence[CheckpointKey]) -> None:
        """No job of this process needs these any more; they stay until their space is needed."""
        ...

    def remove(self, saved: Saved) -> None:
        """Forget a checkpoint that proved unreadable."""
        ...

    def set_aside(self, saved: Saved, folder: Path) -> None:
        """Move a checkpoint that is not to be used any more to a folder, for people."""
        ...

    def close(self) -> None:
        """Let go of the place."""
        ...


def open_checkpoints(retention: Retention) -> Checkpoints | None:
    """The place that durable outputs go to; None, with a warning, if it is a folder that cannot be written. Raises
    ConfigError if it is no place, or one whose content cannot be believed; DiskFull in place of the warning where
    outputs must be written."""
    if retention.directory is None:
        return None
    place, key = str(retention.directory), retention.key
    if not is_remote(place):
        if key is None:
            refuse_if_open(Path(place))
        try:
            return CheckpointDirectory(Path(place), retention.budget, key)
        except DiskFull as error:
            if retention.strict:
                raise
            _warn(error)
            return None
    from qoop.catalog.stores.node_cache import node_cache
    from qoop.engine.storage.shared_store import SharedCheckpoints  # few need it

    return SharedCheckpoints(open_objects(place), node_cache(), retention.budget, key=key, pack=retention.pack)


def _warn(error: QoopError) -> None:
    warnings.warn(f"outputs do not outlive this process: {error}", RuntimeWarning, stacklevel=3)


class NotSavedWarning(RuntimeWarning):
    """An output of some jobs does not outlive the process. sentence: says so in the status of the jobs, too, if they
    have not ended."""

    def __init__(self, jobs: Sequence[JobId], sentence: str) -> None:
        super().__init__(f"{', '.join(jobs)}: {sentence}")
        self.sentence = sentence


class LossWarnings:
    """Warns of outputs that do not outlive the process, once for each job. Thread-safe. strict: the owner of the
    outputs raises errors instead; so it does for a warning that a filter made an error."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._lock = threading.Lock()
        self._warned: deque[JobId] = deque(maxlen=_WARNED)
        self._degraded = False

    def not_saved(self, jobs: Iterable[JobId], bytes_: int, why: str) -> QoopError | None:
        """An output of these jobs is not written, if there is a reason why. Returns the error to raise."""
        with self._lock:
            new = [job for job in sorted(jobs) if why and job not in self._warned]
            self._warned.extend(new)
        if not new or self._strict:
            return None
        warning = NotSavedWarning(new, not_saved(bytes_, why))
        try:
            warnings.warn(warning, stacklevel=2)
        except RuntimeWarning:
            return DiskFull(str(warning))
        return None

    def not_durable(self, error: QoopError) -> QoopError | None:
        """No output is durable from now on. Returns the error to raise."""
        if self._strict:
            return error
        warned, self._degraded = self._degraded, True
        try:
            if not warned:
                _warn(error)
        except RuntimeWarning:
            return error
        return None
