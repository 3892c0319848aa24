"""`ncalr label` as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys


def label(folder, *words):
    """The command, started."""
    command = [sys.executable, "-c", "from ncalr.cli import main; main()", "label", str(folder), *words, "--no-browser"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def start(folder, *words):
    """The process that serves, and the link it printed."""
    process = label(folder, *words)
    said = []
    for line in process.stdout:
        said.append(line)
        found = re.search(r"http://\S+enter=\S+", line)
        if found:
            return process, found.group(0)
    raise AssertionError("".join(said))
