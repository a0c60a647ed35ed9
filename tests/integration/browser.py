# SPDX-License-Identifier: Apache-2.0
"""A real browser for tests: Debian's Chromium, without a window, driven by browser.mjs.

    browser = Browser()                    # about a second
    page = browser.open(url)
    page.run("document.title")
    page.assert_clean()                    # nothing on its console, nothing asked of anybody else
    browser.close()

Debian packages: chromium, nodejs; the driver is in node_modules (npm ci in this directory).
"""
import itertools
import json
import os
import pathlib
import subprocess

from harness import wait_for

INTEGRATION = pathlib.Path(__file__).resolve().parent
DESK = (1280, 900)
PHONE = (360, 740)


class Page:
    def __init__(self, browser, name):
        self._browser = browser
        self._name = name

    def _do(self, command, **settings):
        return self._browser.do(command, page=self._name, **settings)

    def run(self, script):
        """Returns the value of a JavaScript expression, awaited if it is a promise."""
        return self._do("run", script=script)

    def text(self, selector):
        """Returns the text of an element, or None if there is none, or it is invisible."""
        return self.run(f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
                        " return found?.checkVisibility() ? found.innerText : null; })()")

    def wait_text(self, selector, holds):
        """Waits until `holds` is true for the text. Returns the text."""
        last = [None]

        def look():
            last[0] = self.text(selector)
            return last[0] is not None and holds(last[0])

        try:
            wait_for(look)
        except AssertionError as error:
            raise AssertionError(f"{error}: {selector} is {last[0]!r}") from None
        return last[0]

    def press(self, *keys):
        for key in keys:
            self._do("press", key=key)

    def paste(self, text):
        """Pastes text into the element with the focus."""
        self._do("paste", text=text)

    def hover(self, selector):
        self._do("hover", selector=selector)

    def tap(self, selector):
        self._do("tap", selector=selector)

    def resize(self, size):
        self._do("resize", width=size[0], height=size[1])

    def set_scheme(self, scheme):
        self._do("scheme", scheme=scheme)

    def poison(self, html):
        """Appends `html` to every text in the JSON that the page loads from now on."""
        self._do("poison", html=html)

    def screenshot(self, path):
        self._do("screenshot", path=str(path))

    def problems(self):
        """Returns the console's messages since the last call, and requests to other origins."""
        found = self._do("problems")
        return found["problems"] + [f"asked for {url}" for url in found["strangers"]]

    def assert_clean(self, *but):
        """Fails if there are problems, except those that begin with one of these texts."""
        if problems := [each for each in self.problems() if not each.startswith(but)]:
            raise AssertionError("\n".join(problems))

    def axe(self):
        """Returns the findings of axe-core: (rule, description, element)."""
        self.run((INTEGRATION / "node_modules" / "axe-core" / "axe.min.js").read_text() + "; 0")
        found = self.run("axe.run()")["violations"]
        return [(rule["id"], rule["help"], [node["target"] for node in rule["nodes"]])
                for rule in found]

    def close(self):
        self._do("close")


class Browser:
    def __init__(self):
        if not (INTEGRATION / "node_modules" / "playwright-core").is_dir():
            raise AssertionError("tests/integration/node_modules is missing: run `npm ci` there")
        self._names = itertools.count()
        self._process = subprocess.Popen(
            ["node", str(INTEGRATION / "browser.mjs")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                 "HOME": os.environ.get("HOME", "/")})

    def do(self, command, **settings):
        self._process.stdin.write(json.dumps({"do": command, **settings}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError("the browser's driver has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise AssertionError(f"{command} {settings}: {answer['error']}")
        return answer["result"]

    def open(self, url, size=DESK, scheme="light"):
        name = next(self._names)
        self.do("open", page=name, url=url, width=size[0], height=size[1], scheme=scheme)
        return Page(self, name)

    def close(self):
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.stdout.close()
        self._process.wait()
