"""Foreign text, so that it is shown as it is and does nothing."""

import re

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$<>&:=^\"'])")
_JOINED = re.compile(r"(?<=:)(?=[\w+/-])|(?<=www)(?=\.)|(?<=@)|(?<=[-<>~])(?=[-=>]+(?:\s|$))")
_WORD_JOINER = "\u2060"
_SPACES = re.compile(r"[^\S\N{NO-BREAK SPACE}]+")
_COLOR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_CONTROLS |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)


def escaped(text: str) -> str:
    """Markdown that shows ``text`` as it is: no markup, link, image, formula, colour or icon comes out of it.

    Shortcodes (``:name:``), bare addresses and arrows (``->``, ``--``) are found after Markdown's own escapes are gone, so an invisible
    word joiner parts them.
    """
    return _MARKDOWN.sub(r"\\\1", without_shortcodes(_SPACES.sub(" ", text).strip()))


def without_shortcodes(text: str) -> str:
    """For what knows no Markdown but shortcodes: ``visible`` text, with an invisible word joiner in each of them and in bare addresses."""
    return _JOINED.sub(_WORD_JOINER, visible(text))


def visible(text: str) -> str:
    """``text`` with a symbol for each control character but tab and line break: an escape sequence is seen, and does nothing; nor does an
    override of the direction, which would turn what follows it around."""
    return text.translate(_CONTROLS)


def without_colors(text: str) -> str:
    """``text`` without the escape sequences that colour it in a terminal; those that do anything else there stay, to be seen."""
    return visible(_COLOR.sub("", text))
