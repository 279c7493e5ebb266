from engine.bench import device


def test_a_step_waits_for_the_device_once_and_its_passes_are_graphs() -> None:
    result = device.run(True, "tiny")
    assert {name: result[name]["syncs"] for name in device.STRATEGIES} == {"plain": 1, "chain4": 1, "tree": 1}
    assert {name: result[name]["graph_launches"] for name in device.STRATEGIES} == {"plain": 1, "chain4": 2, "tree": 2}
    assert result["tree"]["launches"] <= 150
    assert all(result["peak_bytes_model"].values())
