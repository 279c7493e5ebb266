"""An attempt to generate, as SGLang's host sees it."""

from typing import Any

from engine.rollout.interface import Request, Sampling
from engine.rollout.response import Response, StopCondition
from engine.rollout.sglang.generation import Generation
from engine.rollout.sglang.messages import Begin, Ended


class AtOnce:
    """A host that ends whatever it is to begin."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._ended: list[str] = []

    def send(self, message: Any) -> None:
        if isinstance(message, Begin):
            self.begun.append(message.key)
            self._ended.append(message.key)

    def receive(self) -> Ended:
        return Ended(self._ended.pop(), "stop")


def test_what_is_aborted_before_the_host_is_there_is_not_begun() -> None:
    """As while SGLang is started anew: there is nobody yet who could be told to stop."""
    ended, host = list[Response](), AtOnce()
    requests = [Request(number, 0, (3, 4)) for number in range(3)]
    generation = Generation(requests, Sampling(max_new_tokens=4), StopCondition(frozenset()), frozenset(), ended.append)
    assert len(generation.unwanted({1})) == 1
    generation.run(host)  # type: ignore[arg-type]
    assert {response.id: response.finish for response in ended} == {0: "stop", 1: "abort", 2: "stop"}
    assert len(host.begun) == 2
