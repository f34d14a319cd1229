"""Examples in docstrings, which LangChain writes in another way than mkdocstrings reads them."""

import re
import textwrap
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?m)^Example:$")
BLOCK = re.compile(r"(?m)^( *)\.\. code-block:: python\n((?:\n|\1 +.*\n?)+)")


class Examples(griffe.Extension):
    """Makes ``Example:`` a section, and reST's blocks of code those of Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401
        """Change the docstring."""
        if obj.docstring:
            text = EXAMPLE.sub("Examples:", obj.docstring.value)
            obj.docstring.value = BLOCK.sub(fenced, text)


def fenced(match: re.Match[str]) -> str:
    """The block between fences."""
    code = textwrap.dedent(match[2]).strip()
    return textwrap.indent(f"```python\n{code}\n```\n", match[1])
