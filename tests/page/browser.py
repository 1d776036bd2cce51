"""A browser without a screen, asked through a pipe in the DevTools protocol."""

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.serve.support import PATIENCE

DESKTOP, PHONE = (1280, 900), (390, 844)
_START = 'exec "$0" "$@" 3<&{read} 4>&{write}'
_OPTIONS = (
    "--no-sandbox",  # which root may not use
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One tab of a browser; `errors` is what its console complained of, and what it blocked."""

    def __init__(self, process: "subprocess.Popen[bytes]", read: int, write: int) -> None:
        self._process = process
        self._read, self._write = read, write
        self._unread = b""
        self._number = 0
        self._session = ""
        self.errors: list[str] = []
        self.requested: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def resize(self, size: tuple[int, int], dark: bool = False, script: bool = True) -> None:
        """Have a window of that size, light or dark, with or without script."""
        width, height = size
        mobile = width < 600
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._ask("Emulation.setScriptExecutionDisabled", value=not script)

    def zone(self, name: str) -> None:
        """Have the clock of a zone."""
        self._ask("Emulation.setTimezoneOverride", timezoneId=name)

    def open(self, url: str) -> None:
        """Load a page, until it is complete."""
        found = self._ask("Page.navigate", url=url)
        assert "errorText" not in found, found
        self.wait("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """Return the value of an expression, or what it promises."""
        found = self._ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true, also in the page that is loaded next."""
        late = time.monotonic() + PATIENCE
        while time.monotonic() < late:
            found = self._answer("Runtime.evaluate", expression=expression, returnByValue=True)
            if found.get("result", {}).get("result", {}).get("value") is True:
                return  # else it is not, or the page is being left
            select.select([], [], [], 0.02)
        raise AssertionError(f"never true: {expression}")

    def press(self, key: str, text: str = "") -> None:
        """Press a key, such as `Tab` or `Enter`."""
        codes = {"Tab": 9, "Enter": 13}
        about: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        if key == "Enter":
            text = "\r"
        more = {"text": text} if text else {}
        self._ask("Input.dispatchKeyEvent", type="keyDown", **about, **more)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text: str) -> None:
        """Write a text where the focus is."""
        self._ask("Input.insertText", text=text)

    def picture(self, path: Path, whole: bool = True) -> None:
        """Write a PNG of the page, the whole of it or what the window shows."""
        found = self._ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _ask(self, method: str, **parameters: Any) -> Any:
        said = self._answer(method, **parameters)
        assert "error" not in said, (method, said["error"])
        return said["result"]

    def _answer(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                return said
            self._note(said)

    def _note(self, said: Any) -> None:
        about = said.get("params", {})
        match said.get("method"):
            case "Log.entryAdded" if about["entry"]["level"] == "error":
                text = about["entry"]["text"]
                if not text.startswith("Failed to load"):  # a status such as 401, or a service ends
                    self.errors.append(text)
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(about["exceptionDetails"])[:500])
            case "Page.javascriptDialogOpening":
                self.errors.append(f"dialog: {about['message']}")
                self._number += 1
                told = {"id": self._number, "method": "Page.handleJavaScriptDialog"}
                told |= {"params": {"accept": True}, "sessionId": self._session}
                os.write(self._write, json.dumps(told).encode() + b"\0")
                self._number -= 1
            case "Network.requestWillBeSent":
                self.requested.append(about["request"]["url"])

    def _next(self) -> Any:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._read], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has ended"
            self._unread += more
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)


@contextmanager
def running_browser(program: str, folder: Path) -> Iterator[Browser]:
    """Return a `with` in which a browser runs, with its files in a folder."""
    to_browser, from_us = os.pipe()
    from_browser, to_us = os.pipe()
    start = _START.format(read=to_browser, write=to_us)
    command = ["bash", "-c", start, program, *_OPTIONS, f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        command,
        pass_fds=(to_browser, to_us),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
    )
    os.close(to_browser)
    os.close(to_us)
    try:
        yield Browser(process, from_browser, from_us)
    finally:
        process.kill()
        process.wait()
        os.close(from_us)
        os.close(from_browser)
