"""Is it alive, can it work, and how is it doing?"""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from backend.api.dependencies import OptionalIdentity, PrometheusDep, ReadinessDep
from backend.api.error_responses import documented
from backend.errors import NotReadyError
from longtail.schemas.base import FieldError
from longtail.schemas.health import Health, Readiness

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> Health:
    """The process answers."""
    return Health()


@router.get("/readyz", responses=documented(503))
def readyz(readiness: ReadinessDep) -> Readiness:
    """A submitted run would be carried out: database, migrations, broker, a worker seen lately, disk space. Else what to do."""
    checks = readiness.faults()
    faults = [FieldError(field=name, message=fault) for name, fault in checks.items() if fault]
    if faults:
        raise NotReadyError("; ".join(fault.message for fault in faults), faults)
    return Readiness(checks=dict.fromkeys(checks, "ok"))


@router.get("/metrics", response_class=PlainTextResponse, responses=documented(403, 429))
def prometheus_metrics(prometheus: PrometheusDep, identity: OptionalIdentity) -> PlainTextResponse:
    """For Prometheus: the platform, and the runs that the token's user may see. With LONGTAIL_OPEN_METRICS this machine needs no token
    for it, but learns of no single run then."""
    return PlainTextResponse(prometheus.text(identity), media_type=CONTENT_TYPE_PLAIN_0_0_4)
