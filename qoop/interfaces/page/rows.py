"""The list of queries as rows of HTML, for a browser that runs no JavaScript.

Names and texts come from users, so all of them are escaped.
"""

from __future__ import annotations

from html import escape

from qoop.interfaces.page.views import Json

NAME, ROWS = "<!--name-->", "<!--rows-->"
"""The places where index.html has the name of the session, and the rows of the table."""

PLAIN = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{NAME}</title>
<noscript><meta http-equiv="refresh" content="2"></noscript></head>
<body><h1>{NAME}</h1>
<table><tr><th>id<th>query<th>state<th>tenant<th>done<th>slots<th>time</tr>
{ROWS}</table></body></html>
"""
"""The page of an installation without the assets."""


def with_rows(page: str, overview: Json) -> str:
    """The page with the name of the session and a row for each query."""
    before, _, after = page.replace(NAME, escape(overview["name"])).partition(ROWS)
    return before + "\n".join(_row(line, overview["now"]) for line in overview["jobs"]) + after


def _row(line: Json, now: float) -> str:
    text, done = " ".join(line["text"].split()), f"{line['fraction']:.0%}".replace("%", " %")
    slots = f"{line['used_slots']:g} slot{'' if line['used_slots'] == 1 else 's'}"
    cells = (line["id"], text, line["state"], line["tenant"], done, slots, _time(line, now))
    return f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>"


def _time(line: Json, now: float) -> str:
    if line["ended"] is not None:
        return f"took {line['ended'] - line['submitted']:.1f} s"
    if line["left"] is not None:
        return f"ends in {line['left']['likely']:.0f} s"
    return f"for {max(0.0, now - line['submitted']):.0f} s"
