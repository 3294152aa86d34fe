"""Writes the reference of the Python package as pages in Markdown, from its docstrings.

griffe reads the source without importing it, so no native module and no optional package is needed. pdoc
imports the package, and its pages have their own theme and their own search; these pages are part of the site.
"""

import re
import textwrap
from pathlib import Path

import griffe

# The pages, each with the modules whose public names it describes.
PAGES = {
    "Stores": ["store"],
    "Objects": ["pool", "ops", "file"],
    "Tables": ["table", "rows", "dataset"],
    "Arrays": ["array", "regrid", "zarr", "xarray"],
    "Errors": ["errors"],
}
# Modules that `benthic` does not export as a whole.
BESIDE = ["xarray"]


def write_pages(python, out):
    """Writes the pages below `out` and returns pairs of title and file name."""
    package = griffe.load("benthic", search_paths=[str(python)], try_relative_path=False)
    items = [package[name] for name in package.exports if name not in ("__version__", "errors")]
    for module in BESIDE:
        items += [item for item in package[module].members.values() if is_public(item)]
    items = [item.final_target if item.is_alias else item for item in items]
    # First the entry points: functions, then the classes with the most members.
    items.sort(key=lambda item: (item.is_class, -len(list(members(item)))))
    known = {f"benthic.{module}" for modules in PAGES.values() for module in modules}
    strays = [item.path for item in items if item.module.path not in known]
    undocumented = [found.path for item in items for found in [item, *members(item)] if must_explain(found) and not found.docstring]
    if strays or undocumented:
        raise SystemExit(f"without a page in python_api.py: {strays}; without a docstring: {undocumented}")
    out.mkdir(parents=True)
    pages = []
    for title, modules in PAGES.items():
        parts = [f"# Python: {title.lower()}\n"]
        for module in modules:
            if module == "errors" or module in BESIDE:
                parts.append(markdown(package[module].docstring.value) + "\n")
            for item in items:
                if item.module.path == f"benthic.{module}":
                    parts += describe(item)
        name = f"{title.lower()}.md"
        (out / name).write_text("\n".join(parts))
        pages.append((f"Python: {title.lower()}", name))
    return pages


def is_public(item):
    return not item.is_alias and not item.name.startswith("_") and (item.is_class or item.is_function)


def members(item):
    """The public members of a class, with those of its private base classes."""
    if not item.is_class:
        return []
    inherited = {name: found for name, found in item.inherited_members.items() if found.target.parent.name.startswith("_")}
    found = {**item.members, **inherited}
    return [member.final_target if member.is_alias else member for member in found.values() if not member.name.startswith("_")]


def must_explain(item):
    """A field may have a name that says all."""
    return not item.is_attribute or "property" in item.labels


def describe(item):
    yield f"## {item.name}\n"
    if item.is_function:
        yield signature(item, item.name)
    yield markdown(item.docstring.value) + "\n"
    fields, methods = [], []
    for member in members(item):
        (methods if member.is_function else fields).append(member)
    explained = [field for field in fields if field.annotation is not None]
    if explained:
        yield "| field | type | |\n| --- | --- | --- |"
        for field in explained:
            text = markdown(field.docstring.value).replace("\n", " ") if field.docstring else ""
            kind = str(field.annotation).replace("|", "\\|")
            yield f"| `{field.name}` | `{kind}` | {text} |".replace("  |", " |")
        yield ""
    for method in methods:
        yield f"### {item.name}.{method.name}\n"
        yield signature(method, method.name)
        yield markdown(method.docstring.value) + "\n"


def signature(function, name):
    text = function.signature(name=name)
    # Defaults that are private constants.
    for constant in set(re.findall(r"= (_\w+)", text)):
        text = text.replace(f"= {constant}", f"= {function.module[constant].value}")
    if len(text) > 90:
        head, _, rest = text.partition("(")
        inside, _, returns = rest.rpartition(") -> ")
        lines = ",\n    ".join(split(inside))
        text = f"{head}(\n    {lines},\n) -> {returns}"
    return f"```python\n{'async ' if 'async' in function.labels else ''}def {text}\n```\n"


def split(parameters):
    """Splits at the commas that are not in brackets."""
    depth, start = 0, 0
    for at, char in enumerate(parameters):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            yield parameters[start:at].strip()
            start = at + 1
    yield parameters[start:].strip()


def markdown(docstring):
    """Turns the few marks of reStructuredText that the docstrings have into Markdown."""
    blocks = []
    for paragraph in re.split(r"\n\n+", textwrap.dedent(docstring).strip()):
        lines = paragraph.split("\n")
        if lines[0].startswith(">>>"):
            blocks.append(("code", paragraph))
        elif all(line.startswith("    ") for line in lines):
            code = textwrap.dedent(paragraph)
            if blocks and blocks[-1][0] == "code":
                code = f"{blocks.pop()[1]}\n\n{code}"
            blocks.append(("code", code))
        else:
            blocks.append(("text", prose(paragraph)))
    return "\n\n".join(f"```python\n{text}\n```" if kind == "code" else text for kind, text in blocks)


def prose(text):
    text = re.sub(r":\w+:`~?([^`]+)`", lambda found: f"`{found[1].removeprefix('benthic.')}`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"^:(?:param|raises) (\w+):", r"- `\1`:", text, flags=re.MULTILINE)
    text = re.sub(r"^:returns?:", "- returns:", text, flags=re.MULTILINE)
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


if __name__ == "__main__":
    import sys

    write_pages(Path(sys.argv[1]), Path(sys.argv[2]))
