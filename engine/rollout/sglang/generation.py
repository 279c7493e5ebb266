"""One attempt to generate: requests out, tokens in."""

from collections.abc import Callable, Collection, Sequence, Set
from itertools import count

from engine.errors import ModelError
from engine.rollout.interface import Request, Sampling
from engine.rollout.response import Response, StopCondition
from engine.rollout.sglang.arguments import sampling_arguments
from engine.rollout.sglang.host_process import HostLostError, HostProcess
from engine.rollout.sglang.messages import Begin, Ended, Grown, Stop

_numbers = count()


class Generation:
    """``responses`` grow while it runs; ``ended`` sees each once, when it is complete or aborted."""

    def __init__(
        self, requests: Sequence[Request], sampling: Sampling, ends: StopCondition, end_tokens: Set[int], ended: Callable[[Response], None]
    ) -> None:
        self.responses = [Response(request) for request in requests]
        self._sampling, self._ends, self._end_tokens, self._ended = sampling, ends, end_tokens, ended
        number = next(_numbers)  # keys are never used again: what an earlier attempt left behind must not count
        # The dot at the end: SGLang aborts all whose key begins with the one that is given.
        self._open = {f"{number}.{response.id}.": response for response in self.responses}
        self._unwanted: set[str] = set()

    def run(self, host: HostProcess) -> None:
        """Until SGLang has ended all; HostLostError if it is gone before. What goes wrong here ends what still runs there."""
        try:
            self._run(host)
        except HostLostError:
            raise
        except BaseException:
            for key in self._open:
                host.send(Stop(key))
            raise

    def unwanted(self, requests: Collection[int] | None) -> list[str]:
        """The keys to stop so that those of ``requests`` (ids), or all, end as they are. From any thread."""
        keys = [key for key, response in list(self._open.items()) if requests is None or response.id in requests]
        self._unwanted.update(keys)
        return keys

    def give_up(self) -> None:
        """There is, or was, no host that knows of it: what was to be aborted is."""
        for key in self._unwanted & self._open.keys():
            self._abort(self._open.pop(key))

    def _run(self, host: HostProcess) -> None:
        self.give_up()  # while a host was being started, nobody could be told of it
        for key, response in self._open.items():
            request = response.request
            host.send(Begin(key, list(response.known), sampling_arguments(request, self._sampling, self._end_tokens)))
        while self._open:
            message = host.receive()
            known = self._open.get(getattr(message, "key", ""))
            if known and isinstance(message, Grown):
                self._grow(host, known, message)
            elif known and isinstance(message, Ended):
                self._end(known, message)
                del self._open[message.key]

    def _grow(self, host: HostProcess, response: Response, new: Grown) -> None:
        if response.finish:
            return
        response.extend(new.tokens, new.logprobs, self._ends, self._sampling.max_new_tokens)
        if response.finish:
            if response.finish == "stop" and response.tokens[-1] not in self._end_tokens:
                host.send(Stop(new.key))  # a stop string, which SGLang knows nothing of
            self._ended(response)

    def _end(self, response: Response, ended: Ended) -> None:
        if response.finish:
            return
        if ended.reason == "abort" and ended.key in self._unwanted:
            self._abort(response)
            return
        if ended.reason != "stop":  # the limit, and all ends that we know of, were noticed before
            raise ModelError(f"SGLang ended response {response.id} after {response.generated} tokens: {ended.reason}")
        response.finish = "stop"
        self._ended(response)

    def _abort(self, response: Response) -> None:
        if not response.finish:
            response.finish = "abort"
            self._ended(response)
