"""Runs the commands of a script and draws the session as a picture: record.py SCRIPT PICTURE

Each line of the script is a command, which runs in a shell of its own, or a comment. The working directory is
a new one, and `benthic` is the program of PATH. The picture is SVG with text, without fonts or scripts of its own.
"""

import os
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

COLUMNS = 98
CHARACTER_WIDTH, LINE_HEIGHT, MARGIN, TITLE_HEIGHT = 7.83, 19, 18, 34

STYLE = """
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d6dee8; white-space: pre }
  .comment { fill: #8b9bb0 }
  .command { fill: #ffffff; font-weight: 600 }
  .prompt { fill: #4ade80 }"""


def record(script):
    """Returns the lines of the session, each with its kind."""
    lines = []
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"BENTHIC_STORE": f"file:{home}/store"}
        for line in script.read_text().splitlines():
            if line.startswith("#!") or not line.strip():
                continue
            if line.startswith("#"):
                lines += [("", ""), ("comment", line)] if lines else [("comment", line)]
                continue
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=home,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
            )
            if done.returncode not in (0, 13):
                raise SystemExit(f"{line}: exit status {done.returncode}\n{done.stdout}")
            lines.append(("command", line))
            for printed in done.stdout.splitlines():
                lines += [("output", printed[at : at + COLUMNS]) for at in range(0, max(len(printed), 1), COLUMNS)]
    return lines


def draw(lines):
    width = round(2 * MARGIN + COLUMNS * CHARACTER_WIDTH)
    height = TITLE_HEIGHT + len(lines) * LINE_HEIGHT + MARGIN
    # The background is dark in both themes, as that of most terminals.
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
    yield f"<title>A terminal session with benthic</title>\n<style>{STYLE}\n</style>"
    yield f'<rect width="{width}" height="{height}" rx="10" fill="#151c26"/>'
    for index, colour in enumerate(["#ff5f57", "#febc2e", "#28c840"]):
        yield f'<circle cx="{MARGIN + 6 + 18 * index}" cy="17" r="5.5" fill="{colour}"/>'
    for index, (kind, line) in enumerate(lines):
        y = TITLE_HEIGHT + (index + 1) * LINE_HEIGHT - 5
        prompt = '<tspan class="prompt">$ </tspan>' if kind == "command" else ""
        if line:
            yield f'<text x="{MARGIN}" y="{y}" class="{kind}">{prompt}{escape(line, quote=False)}</text>'
    yield "</svg>"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text("\n".join(draw(record(Path(sys.argv[1])))) + "\n")
