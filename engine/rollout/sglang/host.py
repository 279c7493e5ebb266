"""The process that holds SGLang: ``python -m engine.rollout.sglang.host FD FOLDER``. It obeys the engine over the socket FD.

It leads a process group of its own, and ends that when the engine closes the socket, however that comes about.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from engine.rollout.sglang.host_settings import HostSettings
from engine.rollout.sglang.messages import Ask, Begin, Bucket, Ended, Failed, Grown, Pause, Ready, Result, Stop
from engine.rollout.sglang.tensor_handle import Opening, TensorHandle

SETTINGS = "settings.json"
IDLE_SECONDS = 60.0


class Host:
    """Answers messages until the socket is closed. One at a time, but for generations, which go on beside."""

    def __init__(self, settings: HostSettings, engine: Any, socket: Connection, bucket: int) -> None:
        self._settings, self._engine, self._socket, self._bucket = settings, engine, socket, bucket
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        self._running: set[asyncio.Task[None]] = set()
        self._stopped: set[str] = set()
        self._released = False

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop,), daemon=True).start()
        while True:
            message = await self._messages.get()
            match message:
                case Begin():
                    task = asyncio.create_task(self._generate(message))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
                case Stop():
                    self._stopped.add(message.key)
                    self._engine.tokenizer_manager.abort_request(rid=message.key)
                case Pause():
                    await self._pause(message.still)
                case Ask():
                    self._socket.send(await self._answer(message))

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while True:
                loop.call_soon_threadsafe(self._messages.put_nowait, self._socket.recv())
        except (EOFError, OSError):
            os.killpg(0, signal.SIGKILL)

    async def _generate(self, message: Begin) -> None:
        reason = "abort"
        try:
            stream = await self._engine.async_generate(
                input_ids=message.prompt, sampling_params=message.sampling, return_logprob=True, stream=True, rid=message.key
            )
            async for chunk in stream:
                if message.key in self._stopped:  # SGLang forgets an abort of what it does not know yet
                    self._engine.tokenizer_manager.abort_request(rid=message.key)
                meta = chunk["meta_info"]
                logprobs = [entry[0] for entry in meta.get("output_token_logprobs", ())]
                end = (meta["finish_reason"] or {}).get("type")
                reason = end or reason
                if end != "abort":  # its tokens may be repeated ones
                    self._socket.send(Grown(message.key, chunk["output_ids"], logprobs))
        except Exception as error:  # whatever it was, the engine waits for an end
            reason = f"{type(error).__name__}: {error}"
        self._stopped.discard(message.key)
        self._socket.send(Ended(message.key, reason))

    async def _pause(self, still: bool) -> None:
        from sglang.srt.managers.io_struct import ContinueGenerationReqInput, PauseGenerationReqInput

        manager = self._engine.tokenizer_manager
        if still:
            await manager.pause_generation(PauseGenerationReqInput(mode="in_place"))
        else:
            await manager.continue_generation(ContinueGenerationReqInput())

    async def _answer(self, ask: Ask) -> Result:
        try:
            return Result(ask.number, await getattr(self, f"do_{ask.method}")(**ask.arguments))
        except Exception as error:  # the asking process must have an answer, and raises it there
            return Result(ask.number, error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())

    async def do_plugin(self, command: str, arguments: Mapping[str, Any]) -> list[Any]:
        """``command`` of the plugin, on every rank; the values by rank."""
        self._engine.collective_rpc("longtail", command=command, **arguments)
        files = sorted(Path(self._settings.folder).glob(f"{command}.*.json"), key=lambda path: int(path.suffixes[0][1:]))
        values = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        for file in files:
            file.unlink()
        return values

    async def do_load_target(self, bucket: Bucket, version: int, last: bool, handles: Sequence[TensorHandle] = ()) -> None:
        """Tensors of the bucket into the target alone. They lie in the shared memory, or where each of SGLang's ranks finds them by its
        handle, on its own GPU."""
        from sglang.srt.managers.io_struct import UpdateWeightsFromTensorReqInput
        from sglang.srt.utils import MultiprocessingSerializer
        from sglang.srt.weight_sync.tensor_bucket import FlattenedTensorMetadata

        flats: Sequence[torch.Tensor | Opening] = [handle.opening(rank) for rank, handle in enumerate(handles)]
        if not handles:
            flat = torch.from_file(f"/proc/self/fd/{self._bucket}", shared=True, size=bucket.bytes, dtype=torch.uint8).clone()
            flats = [flat] * self._settings.arguments["tp_size"]
        metadata = [
            FlattenedTensorMetadata(each.name, torch.Size(each.shape), each.dtype, each.start, each.end, each.end - each.start)
            for each in bucket.tensors
        ]
        payloads = [{"flattened_tensor": flat, "metadata": metadata} for flat in flats]
        request = UpdateWeightsFromTensorReqInput(
            serialized_named_tensors=[MultiprocessingSerializer.serialize(payload) for payload in payloads],  # each can be opened once
            load_format="flattened_bucket",
            flush_cache=False,  # SGLang dies if it cannot flush there
            disable_draft_model=True,
            weight_version=str(version) if last else None,
        )
        await self.do_flush()
        success, message = await self._engine.tokenizer_manager.update_weights_from_tensor(request, None)
        if not success:
            raise RuntimeError(message)

    async def do_flush(self) -> None:
        """Forgets all cached prefixes, once SGLang is idle: its last step may end after its last response."""
        self._stopped.clear()
        flushed = await self._engine.tokenizer_manager.flush_cache(timeout_s=IDLE_SECONDS)
        if not flushed.success:
            raise RuntimeError(f"SGLang did not become idle within {IDLE_SECONDS} s")

    async def do_release(self) -> None:
        """Gives the cache's memory back until ``do_resume``; weights may be loaded meanwhile."""
        from sglang.srt.managers.io_struct import ReleaseMemoryOccupationReqInput

        if not self._released:
            await self.do_flush()
            await self._engine.tokenizer_manager.release_memory_occupation(ReleaseMemoryOccupationReqInput(tags=["kv_cache"]), None)
            self._released = True

    async def do_resume(self) -> None:
        from sglang.srt.managers.io_struct import ResumeMemoryOccupationReqInput

        if self._released:
            await self._engine.tokenizer_manager.resume_memory_occupation(ResumeMemoryOccupationReqInput(tags=["kv_cache"]), None)
            self._released = False


def main(socket: Connection, bucket: int, folder: Path) -> None:
    settings = HostSettings.read(folder / SETTINGS)
    try:
        import sglang
        from sglang.version import __version__
    except ImportError as error:
        socket.send(Failed("import", str(error)))
        return
    try:
        engine = sglang.Engine(**settings.arguments)
        engine.collective_rpc("longtail", command="hello", speculates=settings.speculation is not None)
    except Exception as error:  # SGLang raises anything; ``start_errors`` tells what it means
        socket.send(Failed("start", f"{type(error).__name__}: {error}"))
        return
    socket.send(Ready(__version__, engine.get_all_child_pids()))
    engine.loop.run_until_complete(Host(settings, engine, socket, bucket).serve())


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), int(sys.argv[2]), Path(sys.argv[3]))
