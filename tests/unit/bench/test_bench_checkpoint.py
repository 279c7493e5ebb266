from engine.bench.checkpoint import _measure
from engine.models.tiny import tiny_config


def test_what_is_frozen_is_written_by_all_but_the_selective_arm() -> None:
    config = tiny_config(20_000)
    measured = _measure(config, 1)
    frozen = config.vocab_size * config.hidden_size * 4
    assert measured["bytes"]["sync"] == measured["bytes"]["async"] > measured["bytes"]["selective"] + frozen
    assert all(measured[f"{name}_ms"] > 0 for name in ("sync", "async", "selective"))
