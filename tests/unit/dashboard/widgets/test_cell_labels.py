import re

from dashboard.widgets.cell_labels import labelled


def test_each_column_gives_its_cells_its_heading() -> None:
    css = labelled("td", ["Run", "Time a step"])
    assert 'td:nth-child(1){--label:"Run"}td:nth-child(2){--label:"Time a step"}' in css


def test_no_heading_ends_the_style() -> None:
    css = labelled("td", ['"}</style><script>\\'])
    assert css.count("</style>") == 1
    assert "script>" not in css
    assert css.count('"') == 2


def test_a_space_after_an_escaped_letter_stays() -> None:
    """CSS takes one space after the digits of an escaped letter for their end."""
    css = labelled("td", ["Demo: TLT"])
    assert re.sub(r"\\([0-9a-f]{6}) ?", lambda escaped: chr(int(escaped[1], 16)), css).count('"Demo: TLT"') == 1
