"""The invariants of a run after every event. Raises AssertionError with the story of the key that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from qoop.engine.frontier import Frontier
from qoop.engine.running.attempts import Attempt, AttemptState
from qoop.engine.task import CheckpointKey

Story = Callable[[CheckpointKey], str]


def check_attempts(attempts: Sequence[Attempt], story: Story) -> None:
    """No key has two attempts, none runs while it waits, and the state follows the reports until a stop."""
    for attempt in attempts:
        assert attempt.stopping or attempt.state is attempt.reported, (
            f"{attempt.id}: {attempt.state}, {attempt.reported}"
        )
        assert attempt.reported not in (AttemptState.STOPPING, AttemptState.VOID), f"{attempt.id}: {attempt.reported}"
        assert not attempt.queued or attempt.started == attempt.granted, (
            f"{attempt.id} is queued, but runs since {attempt.started}\n{story(attempt.key)}"
        )
    keys = [attempt.key for attempt in attempts]
    for key in keys:
        assert keys.count(key) == 1, f"two attempts at {key}\n{story(key)}"


def check_frontier(
    frontier: Frontier, attempts: Sequence[Attempt], present: Container[CheckpointKey], keep: bool, story: Story
) -> None:
    """The frontier agrees with itself, with the outputs present and with the attempts alive. Nothing runs, or is kept
    (unless outputs are kept on purpose), without need."""
    frontier.check()
    alive = {attempt.key: attempt for attempt in attempts}
    for task in frontier.tasks():
        assert task.busy == (task.key in alive), f"{task.key}: busy is {task.busy}\n{story(task.key)}"
        assert not task.present or task.key in present, f"{task.key}: present by the frontier only\n{story(task.key)}"
        assert task.present or not task.needed or task.active, (
            f"{task.key}: needed, not present, not active\n{story(task.key)}"
        )
        assert keep or not task.present or task.needed, f"{task.key}: kept without need\n{story(task.key)}"
        assert not task.busy or task.active or alive[task.key].stopping, (
            f"{task.key}: runs without need\n{story(task.key)}"
        )
    for key, attempt in alive.items():
        assert key in frontier.by_key or attempt.stopping, f"{key}: not of the plan\n{story(key)}"
