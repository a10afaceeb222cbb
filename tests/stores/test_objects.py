"""Both kinds of stores keep the same promises, conditional writes above all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from qoop.catalog.errors import ConfigError
from qoop.catalog.stores.objects import ObjectChanged, Objects, open_objects


@pytest.fixture
def objects(place: str) -> Objects:
    return open_objects(place)


def test_what_is_written_is_read(objects: Objects, tmp_path: Path) -> None:
    objects.create("a/b=1/c d.json", b"0123456789")
    file = tmp_path / "file"
    file.write_bytes(b"x" * 1000)
    objects.upload("a/big", file)
    about, text = objects.read("a/b=1/c d.json")
    assert text == b"0123456789" and about == objects.about("a/b=1/c d.json") and about.size == 10
    assert [bytes(one) for one in objects.ranges("a/b=1/c d.json", [(0, 3), (5, 2)])] == [b"012", b"56"]
    assert [item.name for item in objects.list("a")] == ["a/b=1/c d.json", "a/big"]
    assert objects.list("nothing") == []
    objects.delete(["a/big", "a/never"])
    assert [item.name for item in objects.list()] == ["a/b=1/c d.json"]


def test_of_many_that_create_one_object_one_does(objects: Objects) -> None:
    won: list[tuple[int, int]] = []

    def create(number: int) -> None:
        for key in range(40):
            try:
                objects.create(f"race/{key}", str(number).encode())
                won.append((key, number))
            except FileExistsError:
                pass

    threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key for key, _ in won) == list(range(40))
    assert all(objects.read(f"race/{key}")[1] == str(number).encode() for key, number in won)


def test_only_what_was_seen_is_replaced(objects: Objects) -> None:
    objects.replace("one", b"first")
    seen = objects.about("one").tag
    objects.replace("one", b"another", seen)
    with pytest.raises(FileExistsError):
        objects.replace("one", b"third", seen)
    assert objects.read("one")[1] == b"another"
    with pytest.raises(ObjectChanged):
        objects.ranges("one", [(0, 2)], seen)
    with pytest.raises(ObjectChanged):
        objects.ranges("one", [(0, 2), (3, 2)], seen)


def test_what_is_missing_or_cut_short_is_told(objects: Objects) -> None:
    objects.create("short", b"abc")
    for fails in (
        lambda: objects.read("none"),
        lambda: objects.about("none"),
        lambda: objects.ranges("none", [(0, 1)]),
    ):
        with pytest.raises(FileNotFoundError):
            fails()
    with pytest.raises(OSError, match="short"):
        objects.ranges("short", [(1, 10)])


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("http://host/a", "must begin with file:// or s3://"),
        ("s3:///a", "names no bucket"),
        ("s3://bucket/a?host=x", "no option host; there are endpoint, region, anonymous"),
    ],
)
def test_what_is_no_store(place: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", "[?]")):
        open_objects(place)


def test_the_endpoint_may_be_in_the_url(bucket: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    objects = open_objects(f"{bucket}/p?endpoint={server}&region=us-east-1")
    objects.create("a", b"1")
    assert open_objects(objects.url).read("a")[1] == b"1"


def test_no_bucket_and_no_credentials_are_told(server: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="NoSuchBucket"):
        open_objects("s3://no-such-bucket/p").list()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(OSError, match="credentials"):
        open_objects(bucket).list()
