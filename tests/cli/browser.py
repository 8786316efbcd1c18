# SPDX-License-Identifier: Apache-2.0
"""A real browser without a window: Chromium, told what to do over a pipe, so that it needs no port and no package."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = [
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
    "--disable-dev-shm-usage",  # which is small in containers
]  # fmt: skip
PATIENCE = 120  # seconds, for a machine that has other things to do


def find_program():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """One page. What it asks of the network, logs and throws is kept in `requests` and `problems`."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        here, browser_out = os.pipe()
        browser_in, there = os.pipe()
        options = [*QUIET, f"--user-data-dir={self.folder.name}", "--remote-debugging-pipe"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        start = f'exec "$@" 3<&{browser_in} 4>&{browser_out}'
        self.process = subprocess.Popen(
            ["sh", "-c", start, "sh", find_program(), *options], pass_fds=(browser_in, browser_out),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(browser_in)
        os.close(browser_out)
        self.reader, self.writer = os.fdopen(here, "rb", buffering=0), os.fdopen(there, "wb", buffering=0)
        self.begun, self.number, self.session = b"", 0, None
        self.requests, self.problems = [], []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.close()
        self.writer.close()
        self.folder.cleanup()

    def ask(self, method, **parameters):
        """What the browser answers; what happens meanwhile is noted."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        while True:
            said = self.next_message()
            if said.get("id") == self.number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']['message']}")
                return said["result"]
            self.note(said)

    def next_message(self):
        while b"\0" not in self.begun:
            piece = self.reader.read(1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.begun += piece
        line, self.begun = self.begun.split(b"\0", 1)
        return json.loads(line)

    def note(self, said):
        about = said.get("params", {})
        if said.get("method") == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif said.get("method") == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif said.get("method") == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.problems.append(str(about["args"]))
        elif said.get("method") == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.problems.append(about["entry"]["text"])
        elif said.get("method") == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {about['message']}")

    def look(self, width=1280, height=900, scheme="light", media="screen", script=True):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", media=media,
                 features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Emulation.setScriptExecutionDisabled", value=not script)

    def open(self, path, fragment=""):
        """As a new page, also where only the fragment differs."""
        self.ask("Page.navigate", url="about:blank")
        self.requests.clear()
        self.problems.clear()
        self.ask("Page.navigate", url=path.as_uri() + fragment)

    def evaluate(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def wait_for(self, expression):
        until = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            if time.monotonic() > until:
                raise RuntimeError(f"waited in vain for {expression}; {self.problems}")
            time.sleep(0.05)

    def press(self, key, code=None, shift=False):
        named = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        number = named.get(key, ord(key[0].upper()))
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, windowsVirtualKeyCode=number,
                     modifiers=8 if shift else 0, **(text if kind == "keyDown" else {}))

    def drag(self, start, end):
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def picture(self, path, clip=None):
        options = {"captureBeyondViewport": True}
        if clip is None:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000)}
        answer = self.ask("Page.captureScreenshot", format="png", clip={**clip, "scale": 1}, **options)
        path.write_bytes(base64.b64decode(answer["data"]))
