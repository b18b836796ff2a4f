"""Headless Chromium for tests of a page, driven by its protocol over a pipe: no driver, no port.

`browsing` starts one with a profile of its own and ends it. A `Page` evaluates expressions, types and clicks
as a person does. It records what a page should not do: lines on the console, exceptions, and requests
besides the page itself. Every wait has a deadline.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the page was NOT looked at")

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
    ),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "about:blank"),
)
# The protocol reads from descriptor 3 and writes to 4.
_AT_3_AND_4 = """
import os, sys
for number, descriptor in enumerate(sys.argv[1:3], 3):
    os.dup2(int(descriptor), number)
os.execv(sys.argv[3], sys.argv[3:])
"""
_KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


class Chromium:
    """One browser process and its protocol messages."""

    def __init__(self, profile: str) -> None:
        theirs_in, self._out = (_high(each) for each in os.pipe())
        self._in, theirs_out = (_high(each) for each in os.pipe())
        assert CHROMIUM is not None
        flags = (*_FLAGS[:-1], f"--user-data-dir={profile}", _FLAGS[-1])
        command = [sys.executable, "-c", _AT_3_AND_4, str(theirs_in), str(theirs_out), CHROMIUM, *flags]
        self._process = subprocess.Popen(
            command,
            pass_fds=(theirs_in, theirs_out),
            env={"HOME": profile, "PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._read = b""
        self._asked = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str = "", **parameters: object) -> dict[str, Any]:
        """Return the result of a command; earlier events are stored."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while (answer := self._next(until)).get("id") != message["id"]:
            self.events.append(answer)
        assert "error" not in answer, (method, answer["error"])
        return dict(answer["result"])

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._read:
            assert select.select([self._in], [], [], max(until - time.monotonic(), 0))[0], (
                "Chromium says nothing"
            )
            piece = os.read(self._in, 1 << 20)
            assert piece, "Chromium is gone"
            self._read += piece
        line, self._read = self._read.split(b"\0", 1)
        return dict(json.loads(line))

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        os.close(self._in)
        os.close(self._out)


class Page:
    """One tab with one document."""

    def __init__(
        self, browser: Chromium, *, width: int = 1280, height: int = 800, theme: str = "light"
    ) -> None:
        self._browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        self.resize(width, height)
        self.prefer(theme)

    def _ask(self, method: str, **parameters: object) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **parameters)

    # --- what a person does ---

    def resize(self, width: int, height: int) -> None:
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, theme: str) -> None:
        """Set the system's preference, dark or light."""
        feature = {"name": "prefers-color-scheme", "value": theme}
        self._ask("Emulation.setEmulatedMedia", features=[feature])

    def open(self, path: Path) -> float:
        """Load a file; return the seconds until it reports that it is ready."""
        self._ask("Page.navigate", url=path.as_uri())
        script = """new Promise((done) => {
            const look = () => {
                const [mark] = performance.getEntriesByName("ready");
                mark ? done(mark.startTime) : setTimeout(look, 5);
            };
            look();
        })"""
        self.wait("location.protocol === 'file:' && document.readyState === 'complete'")
        return float(self.value(script)) / 1000

    def press(self, key: str) -> None:
        """Press a key, by its name or by the character that it types."""
        pressed: dict[str, object] = {
            "key": key,
            "windowsVirtualKeyCode": _KEYS.get(key, ord(key[0].upper())),
        }
        if len(key) == 1:
            pressed["text"] = key
        elif key == "Enter":
            pressed["text"] = "\r"
        self._ask("Input.dispatchKeyEvent", type="keyDown", **pressed)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in pressed.items() if k != "text"})

    def type(self, text: str) -> None:
        self._ask("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click the middle of an element, after scrolling to it."""
        script = f"""(() => {{
            const found = document.querySelector({json.dumps(selector)});
            found.scrollIntoView({{block: "nearest"}});
            const box = found.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""
        x, y = self.value(script)
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    # --- what a person sees ---

    def value(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        answer = self._ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + PATIENCE_S
        while not self.value(script):
            assert time.monotonic() < until, f"never true: {script}"

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all visible elements."""
        script = f"""[...document.querySelectorAll({json.dumps(selector)})]
            .filter((each) => each.checkVisibility()).map((each) => each.textContent)"""
        return list(self.value(script))

    def text(self, selector: str) -> str:
        (found,) = self.texts(selector)
        return found

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"]))

    @property
    def faults(self) -> list[str]:
        """Return lines on the console, exceptions, and requests for anything but the page itself."""
        self.value("0")  # earlier events have arrived now
        mine = [each for each in self._browser.events if each.get("sessionId") == self._session]
        said = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
        asked = [
            each["params"]["request"]["url"] for each in mine if each["method"] == "Network.requestWillBeSent"
        ]
        return [json.dumps(each) for each in mine if each["method"] in said] + asked[1:]


@contextlib.contextmanager
def browsing() -> Iterator[Chromium]:
    profile = tempfile.mkdtemp(prefix="fgb")
    browser = Chromium(profile)
    try:
        yield browser
    finally:
        browser.close()
        shutil.rmtree(profile, ignore_errors=True)


def _high(descriptor: int) -> int:
    """Duplicate a pipe to a high number that no other file gets."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
    finally:
        os.close(descriptor)
