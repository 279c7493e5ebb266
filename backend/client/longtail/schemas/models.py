"""Models that runs can name."""

from longtail.schemas.base import Schema


class Model(Schema):
    """``fault`` says why it cannot be used. A built-in model that is not made yet has no figures."""

    name: str
    where: str
    family: str | None
    parameters: int | None
    layers: int | None
    hidden_size: int | None
    vocabulary: int | None
    context: int | None
    fault: str | None
