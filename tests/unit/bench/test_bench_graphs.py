"""What the benchmark of graphs computes where it cannot measure."""

import pytest
import torch

from engine.bench import graphs
from engine.bench.testbed import Bed
from engine.rollout.native.graphs.plan import GraphPlan
from engine.rollout.native.graphs.step_memory import graph_memory
from engine.rollout.native.runner import Runner


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_graphs_take_what_an_engine_leaves_free_for_them() -> None:
    bed = Bed("tiny")
    runner = Runner(bed.model.config, torch.empty(0, dtype=bed.dtype), drafting=True)
    plan = GraphPlan.of_engine(graphs.TLT, graphs.MAX_BATCH)
    found = graphs.run(True, "tiny")
    assert (found["measured"], found["captures"]) == (False, plan.captures)
    assert found["bytes"] == graph_memory(plan, runner._widths)
