"""What may be uploaded: nothing that could be a program to some loader."""

import errno
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.errors import UnsupportedError
from backend.services.artifacts.upload_validation import check_upload, model_card

PICKLE = pickle.dumps({"a": [1, 2, 3]})
HEADER = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
SAFETENSORS = len(HEADER).to_bytes(8, "little") + HEADER + b"\0" * 4
MANY = 10**9


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return buffer.getvalue()


def tarred(name: str, content: bytes, kind: bytes = tarfile.REGTYPE, mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo(name)
        member.size, member.type, member.linkname = len(content) if kind == tarfile.REGTYPE else 0, kind, "/etc/passwd"
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str, bytes], str | None]:
    """Why a file of this name and content is refused; None if it is not."""

    def ask(name: str, content: bytes) -> str | None:
        file = tmp_path / "upload"
        file.write_bytes(content)
        try:
            check_upload(name, file, MANY)
        except UnsupportedError as error:
            return error.detail
        return None

    return ask


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", SAFETENSORS),
        ("MODEL.SAFETENSORS", SAFETENSORS),
        ("config.json", b'{"a": 1}'),
        ("empty.json", b""),
        ("lines.jsonl", b'{"a": 1}\n' * 10_000),
        ("README.md", "# Gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n\n".encode() * 20_000),
        ("cut.txt", b"a" + "\N{LATIN SMALL LETTER U WITH DIAERESIS}".encode() * 40_000),
        ("run.yaml", b"a: 1\n"),
        ("drafter.zip", zipped(drafter__model_dot_safetensors=SAFETENSORS, drafter__README_dot_md=b"# card")),
        ("drafter.tar", tarred("drafter/config.json", b"{}")),
        ("folder.tar", tarred("drafter", b"", tarfile.DIRTYPE)),
    ],
)
def test_what_is_kept(refused: Callable[[str, bytes], str | None], name: str, content: bytes) -> None:
    assert refused(name, content) is None


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        *(
            (name, PICKLE, "pickle")
            for name in ("a.pkl", "a.pt", "a.pth", "a.bin", "a.ckpt", "a.joblib", "a.npy", "a", "a.exe", "a.so", "a.html")
        ),
        *((name, PICKLE, "is not") for name in ("a.safetensors", "a.json", "a.txt", "a.zip", "a.tar")),
        ("a.json", pickle.dumps({"a": 1}, protocol=0), "not JSON"),
        ("a.txt", b"\0", "not text"),
        ("a.md", b"\xff\xfe", "not text"),
        ("short.safetensors", SAFETENSORS[:20], "safetensors"),
        ("empty.safetensors", b"", "safetensors"),
        ("list.safetensors", (2).to_bytes(8, "little") + b"[]", "safetensors"),
        ("deep.safetensors", (20_000).to_bytes(8, "little") + b"[" * 20_000, "safetensors"),
        ("torch.zip", zipped(archive__data_dot_pkl=PICKLE), "pickle"),
        ("renamed.zip", zipped(model_dot_safetensors=PICKLE), "safetensors"),
        ("nested.zip", zipped(inner_dot_zip=zipped(a_dot_txt=b"a")), "not kept"),
        ("cut.zip", zipped(a_dot_txt=b"a" * 100)[:-10], "not an archive"),
        ("up.tar", tarred("../a.txt", b"a"), "outside"),
        ("absolute.tar", tarred("/a.txt", b"a"), "outside"),
        ("backslash.tar", tarred("..\\a.txt", b"a"), "outside"),
        ("symlink.tar", tarred("a.txt", b"", tarfile.SYMTYPE), "link"),
        ("hardlink.tar", tarred("a.txt", b"", tarfile.LNKTYPE), "link"),
        ("device.tar", tarred("a.txt", b"", tarfile.CHRTYPE), "link"),
        ("pickle.tar", tarred("a.pkl", PICKLE), "pickle"),
        ("packed.tar", tarred("a.txt", b"a", mode="w:gz"), "not an archive"),
    ],
)
def test_what_is_refused(refused: Callable[[str, bytes], str | None], name: str, content: bytes, why: str) -> None:
    assert why in (refused(name, content) or "")


def test_an_archive_may_not_unpack_to_more_than_an_upload_may_be(tmp_path: Path) -> None:
    file = tmp_path / "bomb.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"a" * 10_000)
    assert file.stat().st_size < 1000
    with pytest.raises(UnsupportedError, match="more than"):
        check_upload("bomb.zip", file, 1000)


def test_a_damaged_compression_is_no_archive_and_has_no_card(tmp_path: Path) -> None:
    file = tmp_path / "damaged.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.md", "hello " * 1000)
    content = bytearray(file.read_bytes())
    content[45:55] = b"\xff" * 10
    file.write_bytes(content)
    assert model_card(file) is None
    with pytest.raises(UnsupportedError, match="not an archive"):
        check_upload("damaged.zip", file, 10_000)


def test_a_card_is_found_in_a_zip(tmp_path: Path) -> None:
    file = tmp_path / "a.zip"
    for content, card in (
        (zipped(drafter__README_dot_md=b"# Card\0"), "# Card\N{SYMBOL FOR NULL}"),
        (zipped(README_dot_md=b"# Top"), "# Top"),
        (zipped(a__b__README_dot_md=b"# Deep"), None),
        (b"no zip", None),
        (zipped(README_dot_md=b"# Cut" * 100)[:-30], None),
    ):
        file.write_bytes(content)
        assert model_card(file) == card


def test_a_disk_that_fails_is_not_the_archives_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "upload"
    file.write_bytes(zipped(a_dot_txt=b"text"))

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(zipfile.ZipFile, "infolist", fail)
    with pytest.raises(OSError, match="Input/output error"):
        check_upload("upload.zip", file, MANY)
