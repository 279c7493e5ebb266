"""What the pictures of the documents are made of: SVG text."""

from collections.abc import Iterable

WIDTH = 860
"""As wide as the text of a README."""
BOLD = 'font-weight="bold"'


def document(height: float, body: Iterable[str]) -> str:
    """The whole picture, on white."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="15">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *body, "</svg>\n"])


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="#222222" {more}>{words}</text>'.replace(" >", ">")
