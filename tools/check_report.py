#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Opens a report of //benchmarks:compare in a headless Chromium.

    tools/check_report.py DIR          # DIR/report.html and DIR/results.json
    tools/check_report.py --measure    # of some scenarios, measured for a moment

Fails unless the page has a row for each scenario of results.json and each plot
as an image that the browser could decode, and loads nothing else and logs no
error. DIR/report.png shows the page. Exit codes: 0; 1 the check has failed; 2 a
bad call, or there is no Chromium (apt-get install chromium).
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 300  # For the whole check of a page, on a busy machine.
# What is measured where no folder is given: rows of all kinds.
ONLY = "^(handover_spin|size_4k_.*|future_.*|loader_batch_8_.*|loader_st.*_2|in_flight)$"

WHAT_IS_THERE = """(() => ({
  title: document.title,
  names: [...document.querySelectorAll('table tr td:first-child b')]
      .map(cell => cell.textContent),
  tables: document.querySelectorAll('table').length,
  images: [...document.images].map(image => ({name: image.alt,
      width: image.complete ? image.naturalWidth : 0})),
  loaded: performance.getEntriesByType('resource').map(entry => entry.name)
      .filter(name => !name.startsWith('data:')),
}))()"""


class Browser:
    """A headless Chromium, driven by the DevTools protocol over two pipes."""

    def __init__(self, program, profile):
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # The program expects them as descriptors 3 and 4.
        command = ('exec "$0" "$@" '
                   f"3<&{theirs_in} 4>&{theirs_out}")
        self.process = subprocess.Popen(
            ["bash", "-c", command, program, "--headless", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={profile}",
             "--window-size=1300,2400"],
            pass_fds=[theirs_in, theirs_out], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.input, self.output = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.events = []
        self.calls = 0
        self.session = None
        self.watchdog = threading.Timer(SECONDS, self.process.kill)
        self.watchdog.start()

    def close(self):
        """Ends the browser with its processes, which write into the profile."""
        try:
            self.call("Browser.close")
            self.process.wait(SECONDS)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.watchdog.cancel()

    def receive(self):
        message = b""
        while not message.endswith(b"\0"):
            byte = self.input.read(1)
            if not byte:
                raise RuntimeError(f"the browser ended, or was silent for {SECONDS} s")
            message += byte
        return json.loads(message[:-1])

    def call(self, method, **parameters):
        self.calls += 1
        message = {"id": self.calls, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.output.write(json.dumps(message).encode() + b"\0")
        self.output.flush()
        while True:
            answer = self.receive()
            if answer.get("id") == self.calls:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def await_event(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())

    def open(self, url):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log"]:
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        self.await_event("Page.loadEventFired")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression,
                           returnByValue=True)
        return result["result"]["value"]

    def errors(self):
        """What the page has logged as an error, or thrown."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"]["text"])
            entry = parameters.get("entry", {})
            if event.get("method") == "Log.entryAdded" and entry["level"] == "error":
                found.append(entry["text"])
            if (event.get("method") == "Runtime.consoleAPICalled" and
                    parameters["type"] in ("error", "assert")):
                found.append(str(parameters["args"]))
        return found


def failures_of(page, errors, scenarios, plots):
    """Why the page is not the report of these scenarios and plots."""
    failures = [f"the page logged: {error}" for error in errors]
    failures += [f"it loads {name}" for name in page["loaded"]]
    failures += [f"no row of {name}" for name in scenarios
                 if name not in page["names"]]
    widths = {image["name"]: image["width"] for image in page["images"]}
    failures += [f"no image of {plot}" for plot in plots if not widths.get(plot)]
    if page["title"] != "Tenon side by side":
        failures.append(f"its title is {page['title']!r}")
    if not page["tables"] or not plots:
        failures.append(f"it has {page['tables']} tables; there are {len(plots)} plots")
    return failures


def check(folder, program):
    scenarios = json.loads((folder / "results.json").read_text())["scenarios"]
    plots = sorted(p.stem for p in folder.glob("*.png") if p.stem != "report")
    # A process of the browser may outlive it for a moment, and write.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            browser.open((folder / "report.html").resolve().as_uri())
            page = browser.evaluate(WHAT_IS_THERE)
            shot = browser.call("Page.captureScreenshot", format="png")
            errors = browser.errors()
        finally:
            browser.close()
    (folder / "report.png").write_bytes(base64.b64decode(shot["data"]))
    failures = failures_of(page, errors, scenarios, plots)
    for failure in failures:
        print(f"check_report: {folder / 'report.html'}: {failure}", file=sys.stderr)
    print(f"check_report: {len(page['names'])} rows, {page['tables']} tables, "
          f"{len(page['images'])} images in the page")
    return 1 if failures else 0


def measure(folder):
    """Few scenarios, a moment each. Debian's Python has the packages of plots."""
    environment = {**os.environ, "PATH": f"/usr/bin:{os.environ['PATH']}"}
    environment.pop("TENON_PEERS", None)
    subprocess.run([str(ROOT / "bazelw"), "run", "--config=ci", "//benchmarks:compare",
                    "--", "--out", str(folder), "--smoke", "--only", ONLY],
                   cwd=ROOT, env=environment, check=False)
    if not (folder / "report.html").exists():
        raise RuntimeError("//benchmarks:compare has written no report")


def main(argv):
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if len(argv) != 1 or (argv[0].startswith("-") and argv[0] != "--measure"):
        print(__doc__, file=sys.stderr)
        return 2
    if program is None:
        print("check_report: there is no chromium: apt-get install chromium",
              file=sys.stderr)
        return 2
    try:
        if argv[0] != "--measure":
            return check(pathlib.Path(argv[0]), program)
        with tempfile.TemporaryDirectory() as folder:
            measure(pathlib.Path(folder))
            return check(pathlib.Path(folder), program)
    except (OSError, RuntimeError) as error:
        print(f"check_report: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
