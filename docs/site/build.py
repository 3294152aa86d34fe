"""Builds the site: build.py MDBOOK RUSTDOC OUT

mdBook takes pages from one directory, but the links of ours lead from docs/ to the root of the project and back. So this
script copies both to a directory of its own with the same structure, adds the pages of the Python reference, runs mdBook,
and adds what rustdoc has made of the Rust contracts. At the end it checks every link of the pages that mdBook made: tests
check the links in the sources, but not those of generated pages, nor what a theme adds.
"""

import posixpath
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from python_api import write_pages

ROOT = Path(__file__).parents[2]
WORK = ROOT / "target/docs-source"
LIST_OF_APIS = "<!-- make docs lists the pages here -->"
API_ENTRY = "- [APIs](reference/api.md)\n"


def main(mdbook, rustdoc, out):
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    source = WORK / "src"
    shutil.copytree(ROOT / "docs", source / "docs", ignore=shutil.ignore_patterns("site", "SUMMARY.md"))
    for page in ROOT.glob("*.md"):
        shutil.copy(page, source)
    for file in ("book.toml", "site.css"):
        shutil.copy(ROOT / "docs/site" / file, WORK)

    copy_linked_sources(source)

    # The site has its contents beside every page.
    (source / "README.md").write_text(replaced((source / "README.md").read_text(), "[table of contents](docs/SUMMARY.md)", "table of contents"))

    generated = write_pages(ROOT / "python", source / "docs/reference/python")
    api = source / "docs/reference/api.md"
    links = [f"- [{title}](python/{name})" for title, name in generated] + ["- [Rust: `benthic-core`](rust/benthic_core/index.html)"]
    api.write_text(replaced(api.read_text(), LIST_OF_APIS, "The pages:\n\n" + "\n".join(links)))
    entries = "".join(f"  - [{title}](reference/python/{name})\n" for title, name in generated)
    navigation = replaced((ROOT / "docs/SUMMARY.md").read_text(), API_ENTRY, API_ENTRY + entries)
    navigation = re.sub(r"\]\(([^)]+)\)", lambda link: f"]({posixpath.normpath('docs/' + link[1])})", navigation)
    (source / "SUMMARY.md").write_text(navigation)

    subprocess.run([mdbook, "build", WORK, "--dest-dir", out], check=True)
    shutil.copytree(rustdoc, out / "docs/reference/rust")
    wrong = check(out)
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"{out / 'index.html'}")


def copy_linked_sources(source):
    """Copies the examples and headers that pages link."""
    for page in source.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)", page.read_text()):
            copy = (page.parent / link).resolve()
            if source in copy.parents and not copy.exists() and (ROOT / copy.relative_to(source)).is_file():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / copy.relative_to(source), copy)


def replaced(text, old, new):
    if old not in text:
        raise SystemExit(f"the text is missing: {old}")
    return text.replace(old, new)


class Page(HTMLParser):
    """The anchors of a page, its links, and the files that a browser loads with it."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.resources = {"", "top"}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        elif attributes.get("src") or (tag == "link" and attributes.get("href")):
            self.resources.append(attributes.get("src") or attributes["href"])


def check(out):
    """Returns the dead links of all pages, and the resources that are not part of the site."""
    # The pages of rustdoc link each other correctly; rustdoc itself checks the links of comments.
    files = [file for file in out.rglob("*.html") if "rust" not in file.relative_to(out).parts]
    pages = {file.resolve(): Page(file.read_text()) for file in files}
    if len(pages) < 40:
        return ["mdBook made too few pages"]
    wrong = []
    for file, page in pages.items():
        name = file.relative_to(out.resolve())
        wrong += [f"{name}: loads {resource}" for resource in page.resources if "//" in resource]
        for link in page.links + page.resources:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file() or (target in pages and unquote(parts.fragment) not in pages[target].anchors):
                wrong.append(f"{name}: dead link {link}")
    for sheet in out.rglob("*.css"):
        if re.search(r"url\(['\"]?(https?:)?//", sheet.read_text()):
            wrong.append(f"{sheet.relative_to(out)}: loads a resource from elsewhere")
    return wrong


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]).resolve())
