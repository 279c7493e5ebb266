"""What a run would take."""

from fastapi import APIRouter
from pydantic import ValidationError

from backend.api.dependencies import IdentityDep, ReadSession, SettingsDep
from backend.api.error_responses import documented
from backend.errors import InvalidError
from backend.services.plans import planning
from backend.services.projects import membership_check
from backend.services.runs import lookup
from backend.services.runs.validation import check_limits, field_errors
from engine.config import RunConfig
from engine.errors import ConfigError
from engine.planner.hardware import known_gpus, machines
from longtail.schemas.base import FieldError, Items
from longtail.schemas.plans import GpuKind, Plan, PlanRequest

NAMED = {"0.5B", "7B", "8B", "32B", "70B"}
"""Models that can be planned without being there."""

router = APIRouter(tags=["plans"])


@router.get("/plans/gpus")
def list_gpu_kinds() -> Items[GpuKind]:
    """Kinds of GPUs that runs can be planned on, with what the planner knows of them."""
    return Items(items=[GpuKind(name=name, **gpu.model_dump()) for name, gpu in known_gpus().items()])


@router.post("/plans", responses=documented(404))
def plan(body: PlanRequest, session: ReadSession, settings: SettingsDep, identity: IdentityDep) -> Plan:
    """Time, memory and money of a configuration on given machines, in every way that it can be run. It is simulated, not run; its data need
    not be there, and its model may be a mere size: 0.5B, 7B, 8B, 32B or 70B."""
    try:
        config = RunConfig.model_validate(body.config)
        machines(body.gpus, body.price)
    except ValidationError as error:
        raise InvalidError("the configuration is not valid", field_errors(error.errors(), body.config)) from None
    except ConfigError as error:
        field, _, message = str(error).partition(": ")
        raise InvalidError("this cannot be planned", [FieldError(field=field, message=message)]) from None
    if config.model.path in NAMED:
        without = config.model_copy(update={"model": config.model.model_copy(update={"path": "tiny"})})
        check_limits(without, settings, identity.role)
    else:
        check_limits(config, settings, identity.role)
    run = None
    if body.run_id is not None:
        membership_check.check_membership(session, identity, {"run_id": body.run_id}, "viewer")
        run = lookup.find(session, body.run_id)
    return planning.plan(config, body, session, run)
