"""CREATE, DROP and COPY: from text to what they ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qoop.catalog.errors import QueryError
from qoop.planner.sql.bind import without_end
from qoop.statements.views import View

_NAME = r'(?P<name>"(?:[^"]|"")+"|[^\W\d]\w*)'
_VIEW = re.compile(
    rf"CREATE\s+(?P<replace>OR\s+REPLACE\s+)?(?:TEMP\s+|TEMPORARY\s+)?VIEW\s+(?P<unless>IF\s+NOT\s+EXISTS\s+)?{_NAME}"
    r"\s*(?P<columns>\([^()]*\))?\s*AS\b\s*(?P<query>.+)",
    re.I | re.S,
)
_TABLE = re.compile(
    rf"CREATE\s+(?P<replace>OR\s+REPLACE\s+)?(?:TEMP\s+|TEMPORARY\s+)?TABLE\s+(?P<unless>IF\s+NOT\s+EXISTS\s+)?{_NAME}"
    r"\s*AS\b\s*(?P<query>.+)",
    re.I | re.S,
)
_DROP = re.compile(rf"DROP\s+(?P<kind>TABLE|VIEW)\s+(?P<exists>IF\s+EXISTS\s+)?{_NAME}\s*(?:CASCADE|RESTRICT)?", re.I)
_COPY = re.compile(
    rf"COPY\s+(?:{_NAME}|(?P<query>\(.+\)))\s*TO\s+(?P<to>'(?:[^']|'')+')\s*(?P<options>.*)", re.I | re.S
)


@dataclass(frozen=True, slots=True)
class CreateView:
    """replace: in place of a view of that name. unless: do nothing if there is one."""

    view: View
    replace: bool
    unless: bool


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE … AS. replace, unless: as for a view."""

    name: str
    text: str
    replace: bool
    unless: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """kind: TABLE or VIEW. exists: do nothing if there is none."""

    kind: str
    name: str
    exists: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """text: the query whose rows go to the file. options: as written, in DuckDB's own words."""

    text: str
    path: str
    options: str


def created(text: str) -> CreateView | CreateTable:
    """What a CREATE statement asks for. Raises QueryError for what is not to be created here."""
    text = without_end(text)
    if match := _VIEW.fullmatch(text):
        view = View(_plain(match["name"]), match["columns"] or "", match["query"])
        return CreateView(view, bool(match["replace"]), bool(match["unless"]))
    if match := _TABLE.fullmatch(text):
        return CreateTable(_plain(match["name"]), match["query"], bool(match["replace"]), bool(match["unless"]))
    raise QueryError(
        "a session creates views, CREATE [OR REPLACE] VIEW name AS …, and tables out of queries, "
        "CREATE [OR REPLACE] TABLE name AS …, under a name without a schema; data comes in through register()"
    )


def dropped(text: str) -> Drop:
    """What a DROP statement asks for. Raises QueryError for what is not to be dropped here."""
    if match := _DROP.fullmatch(without_end(text)):
        return Drop(match["kind"].upper(), _plain(match["name"]), bool(match["exists"]))
    raise QueryError("a session drops tables and views: DROP TABLE|VIEW [IF EXISTS] name")


def copied(text: str) -> Copy:
    """What a COPY statement asks for. Raises QueryError for one that reads a file."""
    match = _COPY.fullmatch(without_end(text))
    if match is None:
        raise QueryError("a session copies to files: COPY (query) TO 'file' (options); FROM 'file' reads one")
    query = match["query"][1:-1] if match["query"] else f"FROM {match['name']}"
    return Copy(query.strip(), match["to"][1:-1].replace("''", "'"), match["options"])


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
