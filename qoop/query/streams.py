"""The streams and signals of a command line: warnings, and streams that end, fill up or contain invalid UTF-8."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from qoop.catalog.errors import ParseError, QoopError

_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class EndedBySignal(KeyboardInterrupt):
    """A signal of another process that ends this one; like Ctrl-C, it runs all cleanup."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise EndedBySignal in the main thread, unless they are ignored (as by
    nohup)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: object) -> None:
    raise EndedBySignal(number)


def wait_for_signal() -> None:
    """Wait, in the main thread, until a signal's handler raises.

    A lock would not do: Python runs handlers between two bytecodes, and a signal that comes between the last of these
    and the wait for the lock wakes nothing. The handler in C writes to a pipe, which wakes at any time.
    """
    if threading.current_thread() is not threading.main_thread():
        threading.Event().wait()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        while True:
            os.read(reader, 1)
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


@contextmanager
def on_ctrl_z(action: Callable[[], None]) -> Iterator[None]:
    """Within the block Ctrl-Z calls `action`, if the terminal turns it into the signal that stops the program
    (SIGTSTP).

    The terminal does so unless single keys are read, for instance while a line is printed above the live view.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGTSTP, lambda *_: action())
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Within the block Ctrl-C and other signals that end the process are delayed, so the block runs as a whole.

    Modules of C++ that are interrupted while they are loaded leave the interpreter in pieces.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, *_ENDING])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Within the block a warning is one line on stderr, without the line of source that gave it."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"qoop: {message}", file=sys.stderr)


@contextmanager
def output() -> Iterator[None]:
    """Within the block standard output is written; it is flushed at the end.

    Raises QoopError if it cannot be written, but BrokenPipeError if its reader has gone.
    """
    if sys.stdout is None:
        raise QoopError("standard output is closed")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise QoopError(f"standard output, in {error.encoding}, cannot hold {character!r}: set PYTHONUTF8=1") from error
    except OSError as error:
        discard_output()
        what = error.filename or "cannot write standard output"
        raise QoopError(f"{what}: {error.strerror or error}") from error


def discard_output() -> None:
    """Redirect standard output, so the interpreter does not flush it again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read_input() -> str:
    """All of standard input. Raises ParseError if it is not UTF-8."""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise ParseError(f"standard input is not {error.encoding.upper()}: see byte {error.start + 1}") from error
