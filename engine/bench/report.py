"""``longtail bench report``: writes engine/bench/README.md from the result files, and draws the pictures of those that have one.

A file is named after its benchmark, ``spot.json``; there may be others of it, ``spot-gpu.json``. A real run overwrites what it measured.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import yaml
from pydantic import BaseModel, TypeAdapter

from engine.bench import timelines, wall_time_chart
from engine.bench.provenance import ROOT
from engine.errors import DataError

FOLDERS = ("engine/bench/results", "backend/bench/results", "tests/gpu/results")
README = ROOT / "engine/bench/README.md"
DRAWN = {"timelines.svg": ("timelines", "plain", timelines.draw), "drift.svg": ("e2e", "drift", wall_time_chart.draw)}
"""Of each picture, beside the page: the benchmark whose results it is drawn from, what they have then, and what draws it."""
INTRODUCTION = """\
# Figures

`longtail bench report` writes this page from the files in `engine/bench/results`, `backend/bench/results` and, of a
machine with a GPU, `tests/gpu/results`, and a test compares the two. To measure a figure again and to renew the page:
```
.venv/bin/longtail bench spot --json engine/bench/results/spot.json
.venv/bin/longtail bench report
```
`--quick` takes fewer sizes and repetitions. `--runs DIR` keeps the runs of `algorithms`, `e2e`, `learning`,
`planner`, `tail`, `timelines` and `word_problems`, and does not repeat those that are there.

Every figure stands with its machine, the commit that it was taken at, and the day. A dash means that it is not known.
Where a row has several values, the brackets say what they belong to.

The native engine's matrix products of today are of 2026-11-23. Benchmarks of that day, or without one, ran with others.
The default strategies of today are of 2026-11-28. Of those with default strategies, the figures of `tail`, e2e on
`small` with AVX-512, with prompts that come back and with a drifting policy, and of
SmolLM2-135M-Instruct with drafters of 10 and 30 minutes are of the ones before: trees of 8/4/24, 6/3/12 and 4/4/8,
chains of 8, 6, 4 and 2.

AVX2 behind a processor's name: it has no AVX-512. A plain step of `tiny` took 7.9 s on such a one, and 4.4 s on one
that has it. Since 2026-11-29 decoding in float16 is faster, plain and with drafts; most figures are from before
([observations](#observations)).
"""
FIGURES = Path(__file__).with_name("figures.yaml")
HEAD = ("figure", "value", "range", "machine", "commit", "date")
SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹"
wrapped = partial(fill, width=120, break_long_words=False, break_on_hyphens=False)


class Figure(BaseModel):
    """A row of figures.yaml, where it is told what the fields mean."""

    label: str
    key: str
    form: str = "{}"
    least: str | None = None
    most: str | None = None


class FiguresSection(BaseModel):
    """What ``longtail bench NAME``, or another ``command``, says. ``picture``: one of DRAWN."""

    bench: str
    title: str
    about: str
    figures: list[Figure]
    command: str = ""
    picture: str = ""


SECTIONS = TypeAdapter(list[FiguresSection]).validate_python(yaml.safe_load(FIGURES.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Measured:
    """A result file. ``note`` is the number of its footnote, which its provenance has where there is more to say of it."""

    name: str
    result: dict[str, Any]
    note: str

    @property
    def bench(self) -> str:
        return self.name.partition("-")[0]


def write() -> None:
    """Renews the page and its pictures."""
    found = results()
    README.write_text(page(found), encoding="utf-8")
    for path, drawn in pictures(found).items():
        path.write_text(drawn, encoding="utf-8")


def results(root: Path = ROOT) -> list[Measured]:
    """All of them, by name; DataError if there is one that the report would leave out."""
    files = sorted(path for folder in FOLDERS for path in (root / folder).glob("*.json"))
    contents = {path.stem: _content(path) for path in files}
    notes = footnotes(contents.values())
    found = [Measured(name, content, notes.get(_told(content), "")) for name, content in contents.items()]
    known = {section.bench for section in SECTIONS} | {"observations"}
    for one in found:
        if one.bench not in known:
            raise DataError(f"{one.name}.json: no section of engine/bench/figures.yaml shows a benchmark {one.bench}")
    return found


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not readable as JSON: {error}; measure it again, or take it away") from None
    if not (isinstance(content, dict) and "provenance" in content):
        raise DataError(f"{path}: no result of a benchmark, for it has no provenance; take it away")
    return content


def footnotes(contents: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The number of each text."""
    texts = dict.fromkeys(text for text in map(_told, contents) if text)
    return {text: note(number) for number, text in enumerate(texts, start=1)}


def note(number: int) -> str:
    """``number`` in superscript."""
    return "".join(SUPERSCRIPT[int(digit)] for digit in str(number))


def _told(content: Mapping[str, Any]) -> str:
    provenance = content["provenance"]
    return "; ".join(provenance[name] for name in ("source", "note") if name in provenance)


def pictures(found: Sequence[Measured]) -> dict[Path, str]:
    """Of each the first result, by name, that it can be drawn from; none where there is no such result."""
    drawn: dict[Path, str] = {}
    for name, (bench, key, draw) in DRAWN.items():
        results = [one.result for one in found if one.bench == bench and key in one.result]
        drawn |= {README.with_name(name): draw(result) for result in results[:1]}
    return drawn


def page(found: Sequence[Measured]) -> str:
    """The whole text."""
    parts = [INTRODUCTION, *filter(None, (section_text(section, found) for section in SECTIONS)), _observations(found)]
    notes = footnotes(one.result for one in found)
    return "\n".join([*parts, "\n\n".join(wrapped(f"{note} {text}.") for text, note in notes.items())]) + "\n"


def section_text(section: FiguresSection, found: Iterable[Measured]) -> str:
    """Its heading, words, picture and table; nothing if none of its figures is known."""
    chosen = [one for one in found if one.bench == section.bench]
    rows = [row for figure in section.figures for one in chosen for row in _rows(figure, one)]
    command = section.command or f"longtail bench {section.bench}"
    picture = f"![{section.title}]({section.picture})\n\n" if section.picture else ""
    return f"## {section.title}\n{wrapped(section.about)}\n\n{picture}Made by `{command}`:\n\n{_table(rows)}" if rows else ""


def _observations(found: Iterable[Measured]) -> str:
    """What was seen beside the benchmarks' own figures; each row has a provenance of its own."""
    told = [(one, row) for one in found if one.bench == "observations" for row in one.result["observations"]]
    rows = [(row["label"], row["value"], row.get("range", ""), *_origin(row, one.note)) for one, row in told]
    about = "Seen on the side, or by other settings than a benchmark's own; kept by hand in `observations.json`."
    return f"## Observations\n{about}\n\n{_table(rows)}" if rows else ""


def _rows(figure: Figure, one: Measured) -> Iterator[tuple[str, ...]]:
    values = dict(at(one.result, figure.key.split("/")))
    origin = _origin(one.result["provenance"], one.note)
    if "{}" in figure.label:
        for name, value in values.items():
            yield (figure.label.format(name), shown(value, figure.form), "", *origin)
    elif values:
        several = f" ({', '.join(values)})" if len(values) > 1 else ""
        yield (figure.label + several, shown([*values.values()], figure.form), _range(figure, one), *origin)


def _range(figure: Figure, one: Measured) -> str:
    ends = [value for key in (figure.least, figure.most) if key for _, value in at(one.result, key.split("/"))]
    both = ends[0] if ends and isinstance(ends[0], list) else ends
    words = [shown(value, figure.form) for value in both]
    if len(words) != 2:
        return "".join(f"at most {word}" for word in words)
    return "" if both[0] == both[1] else " to ".join(words)


def _origin(provenance: Mapping[str, Any], note: str) -> tuple[str, str, str]:
    machine, commit, date = (provenance.get(name) or "–" for name in ("machine", "commit", "date"))
    return machine, f"{commit} {note}".strip(), date


def at(value: Any, path: Sequence[str], name: str = "") -> Iterator[tuple[str, Any]]:
    """What stands at the end of ``path``, with the names that ``*`` stood for; nothing if there is none."""
    if not path:
        if value is not None:
            yield name, value
    elif path[0] == "*":
        items = value.items() if isinstance(value, dict) else [(item["name"], item) for item in value]
        for key, item in items:
            yield from at(item, path[1:], key)
    elif path[0] in value:
        yield from at(value[path[0]], path[1:], name)


def shown(value: Any, form: str) -> str:
    """A list's values with commas between them; of a mapping the form names what it takes."""
    if isinstance(value, list):
        return ", ".join(shown(item, form) for item in value)
    return form.format(**value) if isinstance(value, dict) else form.format(value)


def _table(rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD), *rows)]
    return "\n".join(lines) + "\n"
