"""Every type of DuckDB's with the ends of its values, alone and nested: a Result gives what DuckDB gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import qoop
from qoop.planner.algebra.expr import quote

MORE = {
    "json": ("""'{"a": [1, null]}'::JSON""", "'null'::JSON", "NULL"),
    "odd_floats": ("'nan'::FLOAT", "'-inf'::FLOAT", "'-0.0'::FLOAT"),
    "odd_doubles": ("'nan'::DOUBLE", "'inf'::DOUBLE", "5e-324::DOUBLE"),
    "endless_days": ("'infinity'::DATE", "'-infinity'::DATE", "NULL"),
    "endless_times": ("'infinity'::TIMESTAMP", "'-infinity'::TIMESTAMP", "'1969-12-31 23:59:59.999999'::TIMESTAMP"),
    "instants": ("'2020-07-01 12:00:00+00'::TIMESTAMPTZ", "'-infinity'::TIMESTAMPTZ", "'1800-01-01 00:00:00+00'"),
    "zones": ("'00:00:00+15:59:59'::TIMETZ", "'12:00:00.000001-05'::TIMETZ", "NULL"),
    "spans": ("INTERVAL '-1 month 2 days -3 hours'", "INTERVAL '0 days'", "NULL"),
    "nothing": ("''::BLOB", "''::VARCHAR::BLOB", "NULL"),
    "no_rows": ("[]::HUGEINT[]", "[NULL]::HUGEINT[]", "NULL"),
    "maps": ("MAP {}::MAP(UUID, HUGEINT[])", "MAP {gen: [1, NULL]}", "NULL"),
    "nulls": ("NULL", "NULL", "NULL"),
    "cased": ("{'A b': 'nan'::DOUBLE, 'Ü': [1::UHUGEINT]}", "{'A b': NULL, 'Ü': []}", "NULL"),
}
FORMS = ("{}", "[{}, NULL]", "{{'x': {}, 'y': [{}]}}", "MAP {{'k': {}}}")
Values = tuple[object, list[object]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a table of all types: the least value, the greatest and NULL."""
    path = tmp_path_factory.mktemp("types") / "types.duckdb"
    uuid = "'ffffffff-0000-0000-0000-000000000002'::UUID"
    with duckdb.connect(str(path)) as connection:
        rows = [", ".join(f"{values[row]} AS {name}" for name, values in MORE.items()) for row in range(3)]
        more = " UNION ALL ".join(f"SELECT {row}".replace("gen:", f"{uuid}:") for row in rows)
        connection.execute(f"CREATE TABLE every AS FROM test_all_types() POSITIONAL JOIN ({more})")
    return path


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "staged"])
def session(file: Path, request: pytest.FixtureRequest) -> Iterator[qoop.Session]:
    with qoop.connect(slots=2, memory="500MB", staged=request.param) as opened:
        opened.register_database(file)
        yield opened


def _python(rows: list[tuple[Any, ...]]) -> Values:
    return None, [repr(row) for row in rows]


def _arrow(rows: pa.Table) -> Values:
    return rows.schema, [_scalar(value) for column in rows.columns for value in column]


def _scalar(value: pa.Scalar) -> object:
    """As Python's value, where it has one: a NaN is then equal to itself."""
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):
        return value if not hasattr(value, "value") else value.value


def _pandas(rows: Any) -> Values:
    return str(rows.dtypes.to_dict()), [_shown(value) for row in rows.itertuples(index=False) for value in row]


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except NotImplementedError:  # an instant before or after those of Python
        return f"{value.value} {value.tz}"


def _polars(rows: Any) -> Values:
    return _arrow(rows.to_arrow())


KINDS: Mapping[str, tuple[Callable[[duckdb.DuckDBPyRelation], Any], Callable[[Any], Values]]] = {
    "fetchall": (lambda rows: rows.fetchall(), _python),
    "arrow": (lambda rows: rows.to_arrow_table(), _arrow),
    "df": (lambda rows: rows.df(), _pandas),
    "pl": (lambda rows: rows.pl(), _polars),
}


def _of(ask: Callable[[], Any], values: Callable[[Any], Values]) -> Values | None:
    """The schema and the values of an answer; None if the library has none for it."""
    try:
        return values(ask())
    except (duckdb.Error, qoop.ExecutionError, pa.ArrowInvalid, polars.exceptions.PolarsError, OverflowError):
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Polars, which has not all types
            raise
        return None


@pytest.fixture(scope="module")
def duckdbs(file: Path) -> Iterator[Callable[[str, str], Values | None]]:
    """DuckDB's answer to a text in one of the forms; the same for both sessions."""
    with duckdb.connect(str(file), read_only=True) as oracle:

        @cache
        def answer(text: str, kind: str) -> Values | None:
            ask, values = KINDS[kind]
            return _of(lambda: ask(oracle.sql(text)), values)

        yield answer


def _compared(
    session: qoop.Session, duckdbs: Callable[[str, str], Values | None], text: str, kinds: Sequence[str]
) -> list[str]:
    """Compare these forms of one result; the forms that there are."""
    result, found = session.sql(text), []
    for kind in kinds:
        _, values = KINDS[kind]
        theirs = duckdbs(text, kind)
        assert _of(getattr(result, kind), values) == theirs, f"{kind}: {text}"
        found += [kind] if theirs is not None else []
    return found


@pytest.mark.filterwarnings("ignore")
def test_every_type_comes_as_from_duckdb(
    session: qoop.Session, file: Path, duckdbs: Callable[[str, str], Values | None]
) -> None:
    compared: Counter[str] = Counter()
    with duckdb.connect(str(file), read_only=True) as oracle:
        names = [name for name, *_ in oracle.execute("DESCRIBE every").fetchall()]
    for name in names:
        shaped = [form.format(*[quote(name)] * 2) for form in FORMS]
        found = _compared(session, duckdbs, f"SELECT {', '.join(shaped)} FROM every", list(KINDS))
        missing = [kind for kind in KINDS if kind not in found]
        for one in shaped if missing else []:  # some of them may be had alone
            compared.update(_compared(session, duckdbs, f"SELECT {one} FROM every", missing))
        compared.update(found * len(shaped))
    assert min(compared[kind] for kind in KINDS) > 200
