"""The model card of a drafter folder, README.md: where the drafter comes from and what it brings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from engine.drafter.kind import DrafterKind
from engine.errors import ModelError
from engine.models.front_matter import front_matter

README = "README.md"
READS = {"eagle": "EAGLE: last hidden state and next token in", "eagle3": "EAGLE-3: three layers' hidden states and next token in"}
ACCEPT_LENGTH = "| accept length (with the base model's own token) | "
MEASURED = (ACCEPT_LENGTH, "| measured in | ", "| accepted at depth ")


@dataclass(frozen=True)
class DrafterCard:
    """What the model card tells. ``history`` has one line per published version; ``accept_length`` counts the target's own token;
    ``acceptance[i]`` is the share of drafts at depth i + 1 that were accepted; ``measured`` says in what."""

    base_model: str
    task: str
    version: int
    accept_length: float | None = None
    history: tuple[str, ...] = ()
    acceptance: tuple[float, ...] = ()
    measured: str = "the last rollouts of its run"


def text(
    kind: DrafterKind,
    card: DrafterCard,
    digests: Mapping[str, str],
    vocabulary: tuple[int, int] | None = None,
    more: Sequence[str] = (),
) -> str:
    """The card; ``digests`` are the SHA-256 of the folder's files by name, ``vocabulary`` how many of how many tokens it drafts from, if
    not from all; ``more``: of "embedding" and "LM head", what the folder has, too."""
    lacking = [part for part in ("embedding", "LM head") if part not in more]
    sentence = f"Of the base model's own it needs: {', '.join(lacking) or 'hidden states only'}. The rest is in this folder."
    figures = f"{ACCEPT_LENGTH}not measured |\n"
    if card.accept_length is not None:
        figures = _figures(card.accept_length, card.acceptance, card.measured)
    checksums = "".join(f"| SHA-256 of {name} | `{digest}` |\n" for name, digest in digests.items())
    drafted = "" if vocabulary is None else f"| drafts from | {vocabulary[0]:,} of {vocabulary[1]:,} tokens |\n"
    history = "".join(f"- {line}\n" for line in card.history) or "- no earlier version\n"
    front = front_matter(base_model=card.base_model, library_name="transformers", tags=["speculative-decoding", kind])
    return f"""{front}# Drafter for {card.base_model}

One decoder layer that drafts tokens for `{card.base_model}` ({READS[kind]}, next hidden state out).
{sentence}

| | |
|---|---|
| task | {card.task} |
| version | {card.version} |
{drafted}{figures}{checksums}
`longtail drafter eval FOLDER` measures it anew.

## Versions
{history}"""


def write_figures(folder: Path, accept_length: float, acceptance: Sequence[float], measured: str) -> None:
    """Puts figures in place of those that the card in ``folder`` has; as in ``DrafterCard``. ModelError if it is not a card of ours."""
    file = folder / README
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.is_file() else []
    place = next((number for number, line in enumerate(lines) if line.startswith(ACCEPT_LENGTH)), None)
    if place is None:
        raise ModelError(f"drafter {folder}: no {README} in it with a row for the accept length, so the figures cannot be written there")
    after = [line for line in lines[place:] if not line.startswith(MEASURED)]
    aside = file.with_suffix(".partial")
    aside.write_text("".join([*lines[:place], _figures(accept_length, acceptance, measured), *after]), encoding="utf-8")
    aside.replace(file)


def base_model(folder: Path) -> str:
    """What the front matter of the card in ``folder`` names; ModelError if there is none."""
    file = folder / README
    try:
        parts = file.read_text(encoding="utf-8").split("---\n") if file.is_file() else []
        facts = yaml.safe_load(parts[1]) if len(parts) > 2 else None
    except (yaml.YAMLError, ValueError, RecursionError):  # as in engine.config.parsing
        facts = None
    if not isinstance(facts, dict) or not isinstance(facts.get("base_model"), str):
        raise ModelError(f"drafter {folder}: no {README} in it that names its base model; name it with --model")
    return str(facts["base_model"])


def _figures(accept_length: float, acceptance: Sequence[float], measured: str) -> str:
    depths = "".join(f"| accepted at depth {depth} | {rate:.1%} |\n" for depth, rate in enumerate(acceptance, 1))
    return f"{ACCEPT_LENGTH}{accept_length:.2f} tokens |\n| measured in | {measured} |\n{depths}"
