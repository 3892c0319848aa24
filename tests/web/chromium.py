"""Headless Chromium, and a server in this process for it to talk to."""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import contextmanager

import pytest
from office import Office as Desk
from postgres import free_port

from ncalr.web.app import Limits, Office, create_app
from ncalr.web.guard import Address
from ncalr.web.store import people
from ncalr.web.store.clock import SteadyClock

PLENTY = Limits(enter=(1000, 1.0), answers=(100000, 1.0), requests=(100000, 1.0))


@contextmanager
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Site:
    """A server in a thread."""

    def __init__(self, tmp_path, media=None):
        import uvicorn

        self.desk = Desk(str(tmp_path / "store.db"), SteadyClock())
        self.address = Address(port=free_port())
        self.media = media
        self.office = Office(self.desk.store, self.address, b"k" * 32, media, PLENTY)
        config = uvicorn.Config(
            create_app(self.office), host="127.0.0.1", port=self.address.port, log_level="error", lifespan="on"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def link(self, name, role="annotator"):
        who, now = self.desk.person(name, role), self.desk.clock.now()
        token = self.desk.store.write(lambda conn: people.issue(conn, now, "link", person=who))
        return f"{self.address.url}/#enter={token}"

    def stop(self):
        self.server.should_exit = True
        self.thread.join(10)
        self.desk.store.close()


class Visit:
    """A page, watched: errors of any kind and requests to anybody else are remembered."""

    def __init__(self, context):
        self.page = context.new_page()
        self.troubles = []
        self.foreign = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda message: self.troubles.append(message.text) if self._bad(message) else None)
        self.page.on("dialog", lambda dialog: (self.troubles.append("a dialog opened"), dialog.dismiss()))

    def _bad(self, message):
        return message.type == "error" and "Failed to load resource" not in message.text

    def open(self, url):
        home = url.split("/#")[0]
        self.page.on(
            "request",
            lambda request: (
                self.foreign.append(request.url) if not request.url.startswith((home, "blob:", "data:")) else None
            ),
        )
        self.page.goto(url)
        return self

    def ready(self):
        self.page.wait_for_selector("body[data-item]:not([data-item=''])", timeout=20000)
        return self

    @property
    def item(self):
        return self.page.get_attribute("body", "data-item")

    def press(self, key):
        """Press a key that answers; seconds until the next item was there."""
        before, began = self.item, time.perf_counter()
        self.page.keyboard.press(key)
        self.page.wait_for_selector(f"body:not([data-item='{before}'])", timeout=10000)
        return time.perf_counter() - began

    def saved(self):
        self.page.wait_for_selector("#saved[data-state='fine']", timeout=20000)


def visit(browser, site, name="ann", role="annotator", **options):
    """Somebody of this name, who came in by a link."""
    return Visit(browser.new_context(**options)).open(site.link(name, role))
