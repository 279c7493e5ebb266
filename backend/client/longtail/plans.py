"""The client's methods about plans."""

from collections.abc import Mapping
from typing import Any

from longtail.schemas.base import Items
from longtail.schemas.plans import GpuKind, Plan
from longtail.transport import Transport, sendable


class Plans(Transport):
    def gpu_kinds(self) -> list[GpuKind]:
        """Those that a run can be planned on."""
        return self._get(Items[GpuKind], "/api/v1/plans/gpus").items

    def plan(
        self,
        config: Mapping[str, Any],
        gpus: str,
        *,
        price: float | None = None,
        run_id: str | None = None,
        median: float | None = None,
        spread: float | None = None,
        deadline: float | None = None,
        quick: bool = False,
    ) -> Plan:
        """What a run of ``config`` takes on ``gpus``, such as h100:64: see ``PlanRequest``. It may take a minute; a ``quick`` one takes
        seconds."""
        given = {"price": price, "run_id": run_id, "median": median, "spread": spread, "deadline": deadline, "quick": quick}
        body = {"config": sendable(config), "gpus": gpus} | {name: value for name, value in given.items() if value is not None}
        return self._reply(Plan, self._request("POST", "/api/v1/plans", json=body, timeout=PATIENCE_SECONDS))


PATIENCE_SECONDS = 150
