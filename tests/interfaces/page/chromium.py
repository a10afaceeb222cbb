"""Chromium without a window, driven over its debugging pipe: no driver to install and no port to open."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # as root in a container there is none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)
KEYS = {
    "Enter": 13,
    "Escape": 27,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


class PageError(Exception):
    """A script failed in the page, or what was waited for did not come."""


class Chromium:
    """One browser; each `open` is a tab of its own."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (to_read, to_write)]

        def hand_over() -> None:  # the browser reads from 3 and writes to 4
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [PROGRAM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            command, close_fds=False, preexec_fn=hand_over, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for end in (to_read, to_write, *high):
            os.close(end)
        self._changed = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._tabs: dict[str, Tab] = {}
        self._last = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        rest = b""
        while piece := os.read(self._read, 1 << 16):
            *messages, rest = (rest + piece).split(b"\0")
            with self._changed:
                for message in messages:
                    self._take(json.loads(message))
                self._changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
        elif tab := self._tabs.get(message.get("sessionId", "")):
            tab.hear(message["method"], message["params"])

    def call(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        with self._changed:
            self._last += 1
            number = self._last
            message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
            os.write(self._write, json.dumps(message).encode() + b"\0")
            if not self._changed.wait_for(lambda: number in self._answers, timeout=60):
                raise PageError(f"Chromium did not answer {method}")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    @contextmanager
    def open(self, address: str, width: int = 1280, height: int = 900, scheme: str = "light") -> Iterator[Tab]:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._tabs[session] = tab = Tab(self, session)
        try:
            tab.show(address, width, height, scheme)
            yield tab
        finally:
            del self._tabs[session]
            self.call("Target.closeTarget", targetId=target)

    def close(self) -> None:
        os.write(self._write, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)


class Tab:
    """A page as a reader uses it: with a pointer, keys and eyes."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser, self._session = browser, session
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._loaded = False

    def hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["source"] in ("security", "javascript"):
            self.errors.append(params["entry"]["text"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def show(self, address: str, width: int, height: int, scheme: str) -> None:
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        self.scheme(scheme)
        self.call("Page.navigate", url=address)
        deadline = time.monotonic() + 60
        while not self._loaded and time.monotonic() < deadline:
            time.sleep(0.01)

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise PageError(answer["exceptionDetails"]["exception"].get("description", script))
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 60) -> Any:
        """Waits until an expression is true, and returns its value."""
        deadline = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > deadline:
                shown = self.run("document.body.innerText.slice(0, 1500)")
                raise PageError(f"{script} did not come true in {seconds} s; errors: {self.errors}; the page:\n{shown}")
            time.sleep(0.03)
        return value

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """Presses the pointer in the middle of an element."""
        self.release(self.press(selector))

    def press(self, selector: str) -> list[float]:
        """Presses the pointer in the middle of an element, without letting it go; the place where it is."""
        found = f"const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
        middle = "const r = e.getBoundingClientRect(), at = [r.x + r.width / 2, r.y + r.height / 2];"
        meets = "return r.width && e.contains(document.elementFromPoint(...at)) ? at : null;"
        where: list[float] = self.wait(
            f"(() => {{ {found} e.scrollIntoView({{block: 'center'}}); {middle} {meets} }})()"
        )
        for kind in ("mouseMoved", "mousePressed"):
            self._mouse(kind, where)
        return where

    def release(self, where: list[float]) -> None:
        """Lets the pointer go."""
        self._mouse("mouseReleased", where)

    def _mouse(self, kind: str, where: list[float]) -> None:
        place = {"x": where[0], "y": where[1], "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, **place)

    def key(self, name: str) -> None:
        text = {"text": "\r"} if name == "Enter" else {"text": name} if len(name) == 1 else {}
        code = {"key": name, "windowsVirtualKeyCode": KEYS.get(name, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def picture(self, path: Path, whole: bool = True) -> None:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
