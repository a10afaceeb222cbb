"""A whole notebook, run as a notebook is: by a kernel of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

PAGE = Path(__file__).parent.parent.parent / "docs" / "notebooks" / "qoop.ipynb"


class Watched(NotebookClient):  # type: ignore[misc]  # untyped
    """Remembers the HTML that a kernel has shown, what was shown in place of other with it."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.html: list[str] = []

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.html.append(msg["content"]["data"].get("text/html", ""))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    folder = tmp_path_factory.mktemp("kernel")
    kernel = folder / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": [sys.executable, *command], "display_name": "here"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        client = Watched(nbformat.read(PAGE, as_version=4), timeout=240, kernel_name="python3")
        client.execute()
    return client


def shown(run: Watched, cell: str) -> list[str]:
    """The HTML, or else the text, that a cell has put out."""
    outputs = next(one for one in run.nb.cells if one.id == cell).outputs
    return [one["data"].get("text/html", one["data"]["text/plain"]) for one in outputs if "data" in one]


def test_answers_are_tables_and_have_names(run: Watched) -> None:
    (table,) = shown(run, "query")
    assert "<td>tea</td><td>7</td>" in table and "2 rows" in table
    (frame,) = shown(run, "frame")
    assert "tea" in frame and "total" in frame


def test_a_long_query_is_shown_while_it_runs_and_is_resized(run: Watched) -> None:
    running = [html for html in run.html if "running" in html]
    assert running and "<progress" in running[0] and "succeeded" in run.html[-1]
    assert "1 row" in shown(run, "watch")[-1]
    assert "succeeded" in shown(run, "job")[0]


def test_the_page_is_kept_without_what_it_has_put_out() -> None:
    assert not any(cell.get("outputs") for cell in nbformat.read(PAGE, as_version=4).cells)
