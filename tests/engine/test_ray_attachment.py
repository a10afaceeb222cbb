"""Sessions of one process share its connection to a Ray cluster: the last ends it, in whatever order they close."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from qoop.engine.backends.ray import nodes
from qoop.engine.backends.ray.nodes import Attachment


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands for the module: whether it is connected, and how often that was ended."""
    found = SimpleNamespace(connected=False, ended=0)

    def attach(*_: object) -> bool:
        began, found.connected = not found.connected, True
        return began

    def shutdown() -> None:
        found.connected, found.ended = False, found.ended + 1

    found.shutdown = shutdown
    monkeypatch.setattr(nodes, "attach", attach)
    monkeypatch.setattr(nodes, "load", lambda: found)
    monkeypatch.setattr(Attachment, "_holders", None)
    return found


@pytest.mark.parametrize("order", [lambda both: both, reversed], ids=["first come first", "last come first"])
def test_the_last_session_ends_the_connection(
    ray: SimpleNamespace, order: Callable[[list[Attachment]], list[Attachment]]
) -> None:
    first, second = order([Attachment("auto"), Attachment("auto")])
    first.leave()
    first.leave()
    assert ray.connected
    second.leave()
    assert not ray.connected and ray.ended == 1


def test_a_connection_that_was_there_stays(ray: SimpleNamespace) -> None:
    ray.connected = True
    Attachment("auto").leave()
    assert ray.connected


def test_one_that_has_outlived_its_connection_does_not_end_the_next(ray: SimpleNamespace) -> None:
    old = Attachment("auto")
    ray.shutdown()
    new = Attachment("auto")
    old.leave()
    assert ray.connected
    new.leave()
    assert not ray.connected


def test_what_ray_prints_of_nodes_goes_to_its_logger_while_a_session_is_connected(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def prints(told: dict[str, list[str]], ignore_prefix: bool) -> None:
        print(*told["lines"])

    printing = SimpleNamespace(print_to_stdstream=prints)
    for _ in range(2):
        nodes._hush(printing)
    printing.print_to_stdstream({"lines": ["a node has died"]}, ignore_prefix=False)
    assert "a node has died" in caplog.text and not capsys.readouterr().out
    nodes._speak_again()
    printing.print_to_stdstream({"lines": ["a node has died"]}, ignore_prefix=False)
    assert "a node has died" in capsys.readouterr().out


def test_ray_prints_by_the_function_that_is_put_aside() -> None:
    worker = pytest.importorskip("ray")._private.worker
    assert "print_to_stdstream(" in inspect.getsource(worker.listen_error_messages)
