"""What may be uploaded: nothing that could be a program to some loader."""

import errno
import io
import json
import pickle
import resource
import stat
import struct
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.errors import UnsupportedError
from backend.services.artifacts import upload_validation
from backend.services.artifacts.file_inspection import EXTENSIONS, MEMBERS, Inspection, RefusedError, card
from backend.services.artifacts.upload_validation import check_upload, model_card

PICKLE = pickle.dumps({"a": [1, 2, 3]})
HEADER = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
SAFETENSORS = len(HEADER).to_bytes(8, "little") + HEADER + b"\0" * 4
MANY = 10**9
MIB = 2**20


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return buffer.getvalue()


def wide(length: int) -> bytes:
    """Safetensors with a header of so many bytes."""
    return length.to_bytes(8, "little") + b"{}".ljust(length)


def one_zipped(name: str, mode: int = stat.S_IFREG, packing: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        member = zipfile.ZipInfo(name)
        member.external_attr, member.compress_type = mode << 16, packing
        archive.writestr(member, b"" if name.endswith("/") else b"/etc/passwd")
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
            Inspection(name, MANY).check(file)
        except RefusedError as error:
            return str(error)
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
        ("folder.zip", one_zipped("drafter/", stat.S_IFDIR)),
        ("regular.zip", one_zipped("drafter/a.txt")),
        ("no-mode.zip", one_zipped("drafter/a.txt", 0, zipfile.ZIP_DEFLATED)),
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
        ("up.zip", one_zipped("../a.txt"), "outside"),
        ("up-folder.tar", tarred("a/../../b", b"", tarfile.DIRTYPE), "outside"),
        ("up-folder.zip", one_zipped("a/../../b/", stat.S_IFDIR), "outside"),
        ("absolute.zip", one_zipped("/a.txt"), "outside"),
        ("symlink.zip", one_zipped("a.txt", stat.S_IFLNK), "link"),
        ("device.zip", one_zipped("a.txt", stat.S_IFCHR), "link"),
        ("bzip2.zip", one_zipped("a.txt", packing=zipfile.ZIP_BZIP2), "nor deflated"),
        ("lzma.zip", one_zipped("a.txt", packing=zipfile.ZIP_LZMA), "nor deflated"),
        ("headers.zip", zipped(**{f"{number}_dot_safetensors": wide(5 * MIB) for number in range(2)}), "headers"),
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
    with pytest.raises(RefusedError, match="more than"):
        Inspection("bomb.zip", 1000).check(file)


def directory_alone(members: int) -> bytes:
    """A zip whose directory names one empty file again and again."""
    small = zipped(a_dot_txt=b"")
    start, end = small.index(b"PK\1\2"), small.index(b"PK\5\6")
    entries = small[start:end] * members
    return small[:start] + entries + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, members, members, len(entries), start, 0)


def test_an_archive_may_not_have_too_many_files(refused: Callable[[str, bytes], str | None]) -> None:
    assert refused("few.zip", directory_alone(100)) is None
    assert "more than" in (refused("many.zip", directory_alone(MEMBERS + 1)) or "")


def test_looking_into_a_file_takes_little_memory_and_is_done_elsewhere(tmp_path: Path) -> None:
    """A zip whose directory has 300 MiB, which take no room on the disk."""
    file, directory = tmp_path / "upload.zip", 300 * MIB
    with file.open("wb") as archive:
        archive.seek(directory)
        archive.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, directory, 0, 0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnsupportedError, match="256 MiB of memory"):
        check_upload("upload.zip", file, MANY)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10 * 1024


def extended(kind: bytes, content: bytes) -> bytes:
    """A tar of an empty file, and a header before it that says more of it."""
    header = tarfile.TarInfo("extension")
    header.type, header.size = kind, len(content)
    return header.tobuf() + content.ljust(-(-len(content) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE, b"\0") + tarred("a.txt", b"")


@pytest.mark.parametrize("kind", EXTENSIONS)
def test_a_tars_headers_are_short(refused: Callable[[str, bytes], str | None], kind: bytes) -> None:
    """tarfile looks at a row of digits by the square of its length: 100 KB took 10 seconds."""
    began = time.process_time()
    assert "a header in it has more than" in (refused("a.tar", extended(kind, b"1" * 30_000)) or "")
    assert time.process_time() - began < 0.2
    name = f"{'n' * 4000}.txt"
    said = name if kind in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK) else f"4015 path={name}\n"
    assert refused("a.tar", extended(kind, said.encode())) is None


def test_what_takes_too_long_is_refused_and_has_no_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_validation, "WAIT_SECONDS", 0.001)
    file = tmp_path / "a.zip"
    file.write_bytes(zipped(README_dot_md=b"# Card"))
    with pytest.raises(UnsupportedError, match="too long"):
        check_upload("a.zip", file, MANY)
    assert model_card(file) is None


def test_an_upload_is_judged_with_its_card(tmp_path: Path) -> None:
    file = tmp_path / "upload"
    file.write_bytes(zipped(README_dot_md=b"# Card"))
    assert check_upload("a.zip", file, MANY) == "# Card"
    file.write_bytes(zipped(README_dot_md=b"# Card\0"))
    assert model_card(file) == "# Card\N{SYMBOL FOR NULL}"
    file.write_bytes(tarred("\udcff.pkl", b""))
    with pytest.raises(UnsupportedError, match="pickle") as caught:
        check_upload("a.tar", file, MANY)
    assert caught.value.detail.encode(), "an answer can be made of it"


def test_a_damaged_compression_is_no_archive_and_has_no_card(tmp_path: Path) -> None:
    file = tmp_path / "damaged.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.md", "hello " * 1000)
    content = bytearray(file.read_bytes())
    content[45:55] = b"\xff" * 10
    file.write_bytes(content)
    assert card(file) is None
    with pytest.raises(RefusedError, match="not an archive"):
        Inspection("damaged.zip", 10_000).check(file)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (zipped(drafter__README_dot_md=b"# Card"), "# Card"),
        (zipped(README_dot_md=b"# Top"), "# Top"),
        (zipped(a__b__README_dot_md=b"# Deep"), None),
        (b"no zip", None),
        (zipped(README_dot_md=b"# Cut" * 100)[:-30], None),
    ],
)
def test_a_card_is_found_in_a_zip(tmp_path: Path, content: bytes, found: str | None) -> None:
    file = tmp_path / "a.zip"
    file.write_bytes(content)
    assert card(file) == found


def test_a_disk_that_fails_is_not_the_archives_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "upload"
    file.write_bytes(zipped(a_dot_txt=b"text"))

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(zipfile.ZipFile, "infolist", fail)
    with pytest.raises(OSError, match="Input/output error"):
        Inspection("upload.zip", MANY).check(file)
