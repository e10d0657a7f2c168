"""What the site needs beyond `mkdocs.yml`: documents from outside `docs/`, and no foreign files.

Owns which documents of the repository are pages too, and the links between them, which are written
for a reader of the repository. A link to a page becomes one to that page, a link to any other file
of the repository becomes its path as text. Invariant: a finished page loads nothing from elsewhere;
the theme's script would for a diagram or a repository's counts, so there are none.

Must not: change a document. Source of the calls: MkDocs documentation, "Plugin events".
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FROM_OUTSIDE = {"SECURITY.md": "security.md"} | {
    f"packages/{name}/README.md": f"packages/{name}.md"
    for name in ("run-journal", "sessions-api", "state-store", "workspace-identity")
}
LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)")
LOADS_FROM_ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\ssrc=["']?(?:https?:)?//
      | <link\b(?![^>]*rel=["']?canonical)[^>]*\shref=["']?(?:https?:)?//
      | <\w+\b[^>]*\sclass=["']?mermaid\b | data-md-component=["']?source\b
      | (?:url\(|@import)\s*["']?(?:https?:)?//""",
    re.VERBOSE | re.IGNORECASE,
)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Make the documents from outside pages."""
    for source, page in FROM_OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Let each link that leaves a document lead to a page, or be the path of a file."""
    here = Path(str(page.file.abs_src_path)).parent
    pages = {Path(str(file.abs_src_path)): file.src_uri for file in files.documentation_pages()}
    pages[ROOT / "README.md"] = "index.md"

    def rewritten(link: re.Match[str]) -> str:
        text, target, anchor = link.groups(default="")
        file = Path(os.path.normpath(here / target))
        if (uri := pages.get(file)) is not None:
            return f"[{text}]({os.path.relpath(uri, Path(page.file.src_uri).parent)}{anchor})"
        if file.exists() and file.is_relative_to(ROOT):
            return f"{text} (`{file.relative_to(ROOT)}`)"
        return link.group()  # leads nowhere: MkDocs says so

    return LINK.sub(rewritten, markdown)


def on_post_build(*, config: MkDocsConfig) -> None:
    """Fail where a finished page or style would load something from another host."""
    for kind in ("html", "css"):
        for path in sorted(Path(config.site_dir).rglob(f"*.{kind}")):
            if found := LOADS_FROM_ELSEWHERE.search(path.read_text("utf-8")):
                raise PluginError(f"{path} loads from another host: {found.group()}")
