from engine.bench import device


def test_a_step_waits_for_the_device_where_it_must_and_decodes_with_graphs() -> None:
    result = device.run(True, "tiny")
    assert {name: result[name]["syncs"] for name in device.STRATEGIES} == {"plain": 1, "chain4": 1, "tree": 1}
    assert {name: result[name]["graph_launches"] for name in device.STRATEGIES} == {"plain": 1, "chain4": 2, "tree": 2}
    assert result["tree"]["launches"] <= 150
    assert all(result["peak_bytes_model"].values())
    assert result["learner"]["syncs"] == 2, "for the norm of the gradients, and for what is told of the update"
    assert result["drafter"]["syncs"] == 1, "for the loss"
