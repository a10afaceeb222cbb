"""Pictures as files: our SVG as it is, rendered to PNG, or in an HTML page."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from qoop.catalog.errors import ConfigError

FONT = "Helvetica, Arial, 'Segoe UI', 'DejaVu Sans', 'Liberation Sans', 'Noto Sans', sans-serif"
"""Value of ``font-family``: names, since a renderer without a browser knows no default for the generic one."""

ZOOM = 2.0
"""Pixels of a PNG to one unit of the drawing."""


def save(svg: str, path: str | os.PathLike[str], title: str = "qoop") -> Path:
    """Write a drawing in the format of the file's ending: ``.svg``, ``.png`` or ``.html`` (self-contained).

    Returns the path. Raises ConfigError for another ending, for PNG without the extra ``plot``, and where the file
    cannot be written.
    """
    kind = Path(path).suffix.lower()
    if kind == ".svg":
        return write(svg, path)
    if kind == ".png":
        return write(png(svg), path)
    if kind in (".html", ".htm"):
        return write(page(title, svg), path)
    raise ConfigError(f"a picture is written as .svg, .png or .html, not as {Path(path).name!r}")


def write(content: str | bytes, path: str | os.PathLike[str]) -> Path:
    """Write a file and return its path. Raises ConfigError if that cannot be done."""
    target = Path(path)
    try:
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error
    return target


def png(svg: str) -> bytes:
    """The drawing as PNG. Raises ConfigError if the renderer is not installed."""
    try:
        import resvg_py
    except ImportError as error:
        raise ConfigError("PNG needs a renderer: pip install 'qoop[plot]', or write .svg or .html") from error
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=ZOOM, background="#ffffff"))


def page(title: str, *parts: str) -> str:
    """An HTML page of these parts (SVG, or HTML) without other files."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


_STYLE = (
    f"body{{font-family:{FONT};font-size:14px;color:#222;background:#fff;"
    "max-width:1200px;margin:24px auto;padding:0 16px}"
    "svg{max-width:100%;height:auto}table{border-collapse:collapse}td,th{padding:2px 12px 2px 0;text-align:left;"
    "vertical-align:top}th{font-weight:600;border-bottom:1px solid #ccc}td.n{text-align:right;font-variant-numeric:"
    "tabular-nums}.bar:hover{opacity:.75}"
)
