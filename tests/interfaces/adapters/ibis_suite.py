"""Runs the tests that ibis ships for its backends on ours and on DuckDB's, and says which share passes.

``make test-ibis`` fetches what these tests need and runs it. A test counts if it passes on DuckDB with the same rows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
NOT_RUN = ("test_examples.py",)  # it fetches data from elsewhere


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for tables and reports")
    parser.add_argument("words", nargs="*", metavar="WORD", help="of pytest, such as -k window; after --")
    options = parser.parse_args()
    options.folder = options.folder.resolve()  # the tests run within it
    options.folder.mkdir(parents=True, exist_ok=True)
    theirs, ours = (outcomes(options.folder, backend, options.words) for backend in ("duckdb", "qoop"))
    good = {test for test, outcome in theirs.items() if outcome == "passed"}
    if not good:
        print("no test passes on DuckDB: is all there that the tests of ibis need?", file=sys.stderr)
        return 2
    failed = sorted(test for test in good if ours.get(test) != "passed")
    print(*(f"{ours.get(test, 'missing'):8} {test}" for test in failed), sep="\n")
    print(table(by_file(good), by_file(good.difference(failed))))
    return 0


def outcomes(folder: Path, backend: str, words: Iterable[str]) -> Mapping[str, str]:
    """The outcomes of the tests on a backend, by file and name without the backend's."""
    import ibis

    tests = Path(ibis.__file__).parent / "backends" / "tests"
    settings, report = folder / "pytest.ini", folder / f"{backend}.xml"
    settings.write_text("[pytest]\naddopts = --import-mode=prepend\n")
    usual = os.environ | {"QOOP_IBIS_DATA": str(folder / "tables"), "QOOP_IBIS_BACKEND": backend}
    usual["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    place = ("-c", str(settings), "--rootdir", str(tests.parents[2]), "--confcutdir", str(tests.parents[1]))
    told = ("-p", "ibis_plugin", "-q", "--no-header", "--tb=short", "--timeout=120", "--junitxml", str(report))
    files = [str(path) for path in sorted(tests.glob("test_*.py")) if path.name not in NOT_RUN]
    with (folder / f"{backend}.log").open("w") as log:
        command = [sys.executable, "-m", "pytest", *place, *told, *files, *words]
        subprocess.run(command, env=usual, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    return read(report, backend)


def read(report: Path, backend: str) -> dict[str, str]:
    """The outcomes in a report of pytest."""
    found = {}
    for case in ET.parse(report).iter("testcase"):
        kinds = [kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None]
        file = case.attrib["classname"].rpartition(".")[2]
        found[f"{file}::{case.attrib['name'].replace(backend, 'BACKEND')}"] = kinds[0] if kinds else "passed"
    return found


def by_file(tests: Iterable[str]) -> Counter[str]:
    """The number of tests of each file."""
    return Counter(test.partition("::")[0] for test in tests)


def table(all_: Counter[str], passed: Counter[str]) -> str:
    """Lines of Markdown: for each file how many tests count, and how many pass."""
    lines = ["| tests of ibis | that DuckDB passes | that qoop passes |", "| --- | --: | --: |"]
    lines += [f"| `{file}` | {all_[file]} | {passed[file]} |" for file in sorted(all_)]
    share = passed.total() / all_.total()
    return "\n".join([*lines, f"| all | {all_.total()} | {passed.total()} ({share:.1%}) |"])


if __name__ == "__main__":
    sys.exit(main())
