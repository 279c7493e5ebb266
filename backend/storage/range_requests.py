"""A download, whole or from where an earlier one broke off: one byte range, strong ETag, memory for a chunk."""

import re

from fastapi import Request
from fastapi.responses import StreamingResponse

from backend.errors import RangeError
from backend.storage.store import DownloadContent
from longtail.schemas.artifacts import file_name


def download(request: Request, content: DownloadContent) -> StreamingResponse:
    """RangeError if the range asked for is not there. Several ranges at once get the whole, as RFC 9110 allows."""
    etag = entity_tag(content)
    asked = request.headers.get("range", "") if request.headers.get("if-range", etag) == etag else ""
    found = parse_range(asked, content.size)
    start, end = found or (0, content.size)
    headers = {
        "accept-ranges": "bytes",
        "content-disposition": f'attachment; filename="{file_name(content.name)}"',
        "content-length": str(end - start),
        "etag": etag,
        "x-sha256": content.sha256,
    }
    if found:
        headers["content-range"] = f"bytes {start}-{end - 1}/{content.size}"
    chunks = content.read(start, end)
    return StreamingResponse(chunks, 206 if found else 200, headers, media_type="application/octet-stream")


def entity_tag(content: DownloadContent) -> str:
    return f'"{content.sha256}"'


def parse_range(asked: str, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last of a Range header; None for the whole: it names no range, several, or not in bytes."""
    found = re.fullmatch(r"bytes=([0-9]{0,18})-([0-9]{0,18})", asked.strip(), re.ASCII | re.IGNORECASE)
    if not found or found[1] == found[2] == "" or (found[1] and found[2] and int(found[2]) < int(found[1])):
        return None
    if found[1]:
        start, end = int(found[1]), min(int(found[2]) + 1, size) if found[2] else size
    else:
        start, end = max(size - int(found[2]), 0), size
    if start >= end:
        raise RangeError(size)
    return start, end
