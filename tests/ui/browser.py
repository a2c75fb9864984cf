"""A headless Chromium that tests drive through a pipe by the DevTools protocol; nothing has to be installed for it.

The program is $CHROMIUM, or a Chromium or Chrome that is on the path.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", "--mute-audio")
LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""The browser reads questions from file 3, and writes answers to file 4."""


def installed() -> str | None:
    """The program to run, if there is one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. `problems` are the messages, exceptions and refusals of its console."""

    def __init__(self, program: str, profile: Path, width: int = 1280, height: int = 860) -> None:
        answers, answered = os.pipe()
        asked, questions = os.pipe()
        ours = (asked, answered)
        started = [program, *ARGUMENTS, f"--user-data-dir={profile}", "about:blank"]
        command = [sys.executable, "-c", LAUNCHER, *map(str, ours), *started]
        self._process = subprocess.Popen(command, pass_fds=ours, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in ours:
            os.close(end)
        self._questions, self._answers = os.fdopen(questions, "wb"), os.fdopen(answers, "rb")
        self._number, self._rest = 0, b""
        self.problems: list[str] = []
        self._session: str | None = None
        target = next(each for each in self.ask("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def ask(self, method: str, **parameters: object) -> Any:
        """Calls a method of the protocol."""
        self._number += 1
        call = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            call["sessionId"] = self._session
        self._questions.write(json.dumps(call).encode() + b"\0")
        self._questions.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def open(self, url: str) -> None:
        self.ask("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 20) -> Any:
        """Waits until an expression is true, and returns it."""
        end = time.monotonic() + seconds
        while not (found := self.value(expression)):
            assert time.monotonic() < end, f"{expression} never was, but: {self.value('document.body.innerText')}"
            time.sleep(0.05)
        return found

    def press(self, key: str, code: int) -> None:
        for type in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=type, key=key, code=key, windowsVirtualKeyCode=code)

    def wheel(self, selector: str, pixels: int) -> None:
        box = self.value(
            f"(() => {{const b = document.querySelector('{selector}').getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]})()"
        )
        self.ask("Input.dispatchMouseEvent", type="mouseWheel", x=box[0], y=box[1], deltaX=0, deltaY=pixels)

    def prefer(self, scheme: str) -> None:
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._questions.close()
        self._answers.close()

    def _read(self) -> Any:
        while b"\0" not in self._rest:
            part = os.read(self._answers.fileno(), 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: Any) -> None:
        known = event.get("params", {})
        if event.get("method") == "Log.entryAdded":
            self.problems.append(known["entry"]["text"] + " " + known["entry"].get("url", ""))
        elif event.get("method") == "Runtime.exceptionThrown":
            details = known["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Runtime.consoleAPICalled":
            self.problems.append(json.dumps(known["args"]))
