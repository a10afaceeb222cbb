"""A session of qoop's and a DuckDB over the same data, and the question whether they agree on a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
from fuzz_data import register, sources
from fuzz_forms import planning_as

import qoop
from qoop.tpcds.oracle import compare
from qoop.tpcds.ordering import ordering

TOO_MANY = 300_000  # rows of an answer that is not worth comparing


@dataclass(frozen=True)
class Verdict:
    """The verdict on a text. wrong: the reason why our answer is not right; None if it is."""

    wrong: str | None
    accepted: bool


class World:
    """The tables of :mod:`fuzz_data`, known to both."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.session = qoop.connect(slots=3, memory="1GB")
        self.duckdb = duckdb.connect(config={"threads": 1})
        register(self.session, self.duckdb, sources(folder, seed))

    def theirs(self, text: str) -> pa.Table | duckdb.Error:
        """DuckDB's answer, or its error."""
        try:
            return self.duckdb.sql(text).to_arrow_table()
        except duckdb.Error as error:
            return error

    def verdict(self, text: str, form: str, theirs: pa.Table | duckdb.Error) -> Verdict:
        """Run the text in a physical form. Where DuckDB has an error, ours may be one or rows, but not a crash."""
        refused = isinstance(theirs, duckdb.Error)
        try:
            with planning_as(form):
                ours = self.session.sql(text).arrow()
        except qoop.QoopError as error:
            return Verdict(None if refused else f"{type(error).__name__}: {error}", not refused)
        if refused:
            return Verdict(None, False)
        difference = compare(ours, theirs, order=ordering(text, theirs.column_names))
        return Verdict(None if difference is None else str(difference), True)

    def explained(self, text: str, form: str) -> str:
        """The plan of a text, for a report."""
        try:
            with planning_as(form):
                return self.session.explain(text)
        except qoop.QoopError as error:
            return f"no plan: {error}"

    def check(self, text: str, forms: tuple[str, ...]) -> bool:
        """Assert that the answers agree in all forms; False where DuckDB refused the text."""
        theirs = self.theirs(text)
        if not isinstance(theirs, duckdb.Error) and theirs.num_rows > TOO_MANY:
            return True
        accepted = True
        for form in forms:
            verdict = self.verdict(text, form, theirs)
            accepted &= verdict.accepted
            plan = "" if verdict.wrong is None else self.explained(text, form)
            assert verdict.wrong is None, f"[{form}] {verdict.wrong}\n\n{text}\n\n{plan}"
        return accepted

    def close(self) -> None:
        self.session.close()
        self.duckdb.close()
