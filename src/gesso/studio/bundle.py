"""Makes one script of modules of the studio: for pages that stand alone, and for the page that a server gives.

Browsers ask a server that speaks HTTP/1 for six files at a time, so that a page of dozens of modules takes many turns
on a slow line, even where it names them all beforehand; one script takes one.

Each module becomes a function that is called once, in the order of imports, and returns what it exports. The modules
keep to the few forms of `import` and `export` that are read here, which a test checks.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import cache

from gesso.studio import MEDIA_TYPES, PAGE, PageFile, page_files

PAGE_SCRIPT = "studio.js"
PAGE_STYLES = "studio.css"
_IMPORT = re.compile(r'^import \{ ([^}]*) \} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (async function|function|class|const) (\w+)", re.MULTILINE)
_COMMENT = re.compile(
    r"^[ \t]*(?:/\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*\n|/\*\* @(?:(?!\*/).)*\*/ ?", re.MULTILINE | re.DOTALL
)
"""Those that have lines of their own, and types."""
_ELSEWHERE = re.compile(r"^(?:import|export)\b|\bimport\s*[.(]|</", re.MULTILINE)
"""What a script that stands inside a page cannot hold."""
_PAGE_SCRIPT = re.compile(r'(?<=<script type="module" src="studio/)[^"]+')
_PAGE_STYLES = re.compile(r'(?:<link rel="stylesheet" href="studio/[^"]+">\n)+')


def bundled_page() -> dict[str, PageFile]:
    """Returns the page as a server gives it, by path: its modules are one script, its style sheets one sheet.

    Raises:
        ValueError: a module has a form of import or export that is not read here.
    """
    files = page_files()
    page = files[PAGE].content.decode()
    (entry,), (links,) = _PAGE_SCRIPT.findall(page), _PAGE_STYLES.findall(page)
    styles = styles_of(tuple(re.findall(r'href="studio/([^"]+)"', links)))
    page = _PAGE_SCRIPT.sub(PAGE_SCRIPT, page)
    page = page.replace(links, f'<link rel="stylesheet" href="studio/{PAGE_STYLES}">\n')
    apart = {name: file for name, file in files.items() if not name.endswith((".js", ".css"))}
    return {
        **apart,
        PAGE: PageFile(page.encode(), files[PAGE].media_type),
        PAGE_SCRIPT: PageFile(script_of(entry).encode(), MEDIA_TYPES[".js"]),
        PAGE_STYLES: PageFile(styles.encode(), MEDIA_TYPES[".css"]),
    }


@cache
def script_of(entry: str) -> str:
    """Returns a script that runs the module `entry`, such as `replay/main.js`, and all that it imports.

    Raises:
        ValueError: a module has a form of import or export that is not read here.
    """
    sources = {name: file.content.decode() for name, file in page_files().items() if name.endswith(".js")}
    order: list[str] = []
    _order(entry, sources, order)
    modules = [_wrapped(name, number, sources[name], order) for number, name in enumerate(order)]
    return '"use strict";\n' + "".join(modules)


@cache
def styles_of(names: Sequence[str]) -> str:
    """Returns style sheets, one after the other, without comments."""
    files = page_files()
    return "".join(_COMMENT.sub("", files[name].content.decode()) for name in names)


def _order(name: str, sources: Mapping[str, str], order: list[str]) -> None:
    """Appends a module behind all that it imports."""
    for _, target in _IMPORT.findall(sources[name]):
        path = _target(name, target)
        if path not in order:
            _order(path, sources, order)
    order.append(name)


def _target(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def _wrapped(name: str, number: int, source: str, order: Sequence[str]) -> str:
    def imported(found: re.Match[str]) -> str:
        names = found[1].replace(" as ", ": ")
        return f"const {{ {names} }} = $m{order.index(_target(name, found[2]))};\n"

    exports = [found[1] for found in _EXPORT.findall(source)]
    code = _EXPORT.sub(r"\1 \2", _IMPORT.sub(imported, _COMMENT.sub("", source)))
    if found := _ELSEWHERE.search(code):
        raise ValueError(f"{name}: {found[0]!r} cannot stand in one script")
    return f"const $m{number} = (() => {{\n{code}return {{ {', '.join(exports)} }};\n}})();\n"
