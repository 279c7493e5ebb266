"""Logging in and out, and one's own account."""

from fastapi import APIRouter, Response
from sqlalchemy.orm import Session

from backend.api.dependencies import Address, DatabaseDep, IdentityDep, LoginLimitsDep, ReadSession, SettingsDep, UnrestrictedIdentity
from backend.api.error_responses import documented
from backend.api.location import point_to
from backend.errors import UnauthorizedError
from backend.models import Token, User
from backend.services.identity import tokens, users
from backend.services.identity.audit import AuditedDatabase
from backend.services.identity.server_secret import server_secret
from longtail.schemas.credentials import LinkKey
from longtail.schemas.identity import Login, Me, NewSession, NewTicket, PasswordChange, PasswordLogin, TokenLogin

TICKET_SECONDS = 600.0

router = APIRouter(tags=["account"])


@router.post("/sessions", status_code=201, responses=documented(401))
def log_in(
    body: Login, response: Response, database: DatabaseDep, settings: SettingsDep, limits: LoginLimitsDep, address: Address
) -> NewSession:
    """A session for user and password, for a token, or once for a ticket."""
    database.user_name = body.user if isinstance(body, PasswordLogin) else ""
    with limits.by_password(address, body.user) if isinstance(body, PasswordLogin) else limits.by_secret(address):
        with database.read() as session:
            proven = _proven(session, body)
        if proven is None:
            raise _noted(database)
        user, proof = proven
        with database.write() as session:
            if proof is not None and proof.kind == "ticket" and not tokens.spend(session, proof):
                raise UnauthorizedError("this ticket has been used")
            owner = users.find(session, user.id)
            tokens.make_room(session, owner, "session", settings.tokens_per_user)
            opened, secret = tokens.open_session(session, owner, settings.session_hours * 3600, proof)
            database.user_name, database.token_id = owner.name, opened.id
            point_to(response, "tokens", opened.id)
            return NewSession.model_validate({"token": secret, "expires_at": opened.expires_at})


@router.delete("/sessions/current", status_code=204, responses=documented(409))
def log_out(identity: IdentityDep, database: DatabaseDep) -> None:
    """Ends the session, or revokes the token, that this request comes with. Tokens that were made in a session stay."""
    with database.write() as session, users.keeping_a_way_in(session):
        tokens.log_out(session, tokens.find(session, identity.token_id))


@router.post("/tickets", status_code=201)
def create_ticket(identity: IdentityDep, settings: SettingsDep, database: DatabaseDep) -> NewTicket:
    """Something that logs a browser in as the caller, once and soon, and may be seen in an address."""
    with database.write() as session:
        user = users.find(session, identity.user_id)
        tokens.make_room(session, user, "ticket", settings.tokens_per_user)
        stem = identity.root_id, identity.project_id
        ticket, secret = tokens.issue(session, user, "ticket", "ticket", identity.role, TICKET_SECONDS, *stem)
        return NewTicket.model_validate({"ticket": secret, "expires_at": ticket.expires_at})


@router.get("/me")
def me(identity: IdentityDep, session: ReadSession) -> Me:
    user = users.find(session, identity.user_id)
    known = {"user": user.name, "has_password": user.has_password, "token_id": identity.token_id, "project_id": identity.project_id}
    return Me.model_validate(known | {"role": identity.role, "user_role": identity.user_role})


@router.get("/me/link-key")
def link_key(identity: IdentityDep, settings: SettingsDep) -> LinkKey:
    """Signs links to downloads (``?link=``) for as long as the token at hand lasts; how is written in LinkKey of the client."""
    return LinkKey.of(identity.token_id, server_secret(settings))


@router.put("/me/password", status_code=204)
def set_password(body: PasswordChange, identity: UnrestrictedIdentity, database: DatabaseDep, limits: LoginLimitsDep) -> None:
    """Sets one's password and ends one's other sessions, and the other tokens that one has made; those from an admin stay."""
    with limits.by_session(identity.token_id), database.write() as session:
        user = users.find(session, identity.user_id)
        users.change_password(session, user, body.current.get_secret_value(), body.new.get_secret_value(), identity.token_id)


def _proven(session: Session, body: Login) -> tuple[User, Token | None] | None:
    """Whose login it is, and by which token or ticket (None: by password); None if the proof is wrong."""
    if isinstance(body, PasswordLogin):
        user = users.by_password(session, body.user, body.password.get_secret_value())
        return (user, None) if user else None
    secret, kind = (body.token, "token") if isinstance(body, TokenLogin) else (body.ticket, "ticket")
    identity = tokens.identify(session, secret.get_secret_value(), [kind])
    token = session.get_one(Token, identity.token_id) if identity else None
    return (token.user, token) if token else None


def _noted(database: AuditedDatabase) -> UnauthorizedError:
    """The refusal of a wrong login, which the audit log has by now."""
    database.action = "log_in_failed"
    with database.write():
        return UnauthorizedError("the user or the password is wrong, or the token or link is over")
