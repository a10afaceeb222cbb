"""The view of a query in front: a Ctrl-C that comes as the query ends is not lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.output import DummyOutput

import qoop
from qoop.interfaces.repl.live import LiveView, Typing
from qoop.query.drawing.terminal import Terminal
from qoop.query.job import Job


class EndedJob:
    """A job that has ended, which the view sees after a number of looks. typed: the keys at that moment."""

    def __init__(self, job: Job, looks: float, keys: PipeInput) -> None:
        self.id, self.status, self.state = job.id, job.status, job.state
        self._looks, self._keys, self.typed = looks, keys, ""

    def wait(self, timeout: float | None = None) -> bool:
        self._looks -= 1
        if self._looks < 0:
            self._keys.send_text(self.typed)
        return self._looks < 0

    def cancel(self) -> None:
        """No effect, since the job has ended; the view sees the end next."""
        self._looks = 0


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    with qoop.connect(slots=1, memory="200MB") as session:
        made = session.submit("SELECT 42 AS a")
        assert made.result().fetchall() == [(42,)]
        yield made


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as made:
        yield made


def view(job: EndedJob, keys: PipeInput) -> LiveView:
    typing = Typing(lambda text: text, tuple, lambda: None, "", InMemoryHistory())
    return LiveView(job, Terminal, typing, tuple, str, keys, DummyOutput())  # type: ignore[arg-type]


def test_ctrl_c_that_comes_too_late_to_cancel_is_a_keyboard_interrupt(job: Job, keys: PipeInput) -> None:
    keys.send_text("\x03")
    with pytest.raises(KeyboardInterrupt):
        view(EndedJob(job, float("inf"), keys), keys).show()


def test_ctrl_c_after_the_last_look_at_the_keyboard_is_a_keyboard_interrupt(job: Job, keys: PipeInput) -> None:
    ended = EndedJob(job, 3, keys)
    ended.typed = "a\x03b"
    with pytest.raises(KeyboardInterrupt):
        view(ended, keys).show()


def test_other_keys_stay_for_the_next_prompt(job: Job, keys: PipeInput) -> None:
    ended = EndedJob(job, 3, keys)
    ended.typed = "ab"
    shown = view(ended, keys)
    shown.show()
    assert shown.draft + "".join(press.data for press in get_typeahead(keys)) == "ab"
