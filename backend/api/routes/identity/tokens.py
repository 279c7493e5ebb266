"""Tokens for programs, and the sessions of browsers."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy.orm import Session

from backend.api.dependencies import Cursor, DatabaseDep, IdentityDep, Limit, ReadSession, SettingsDep, UnrestrictedIdentity
from backend.api.error_responses import documented
from backend.api.location import point_to
from backend.errors import ForbiddenError, NotFoundError
from backend.models import User
from backend.services.identity import tokens, users
from backend.services.identity.tokens import Identity
from backend.services.projects import membership_check
from longtail.durations import DAY_SECONDS
from longtail.schemas.identity import NewToken, Token, TokenPage, TokenRequest, allows

router = APIRouter(prefix="/tokens", tags=["account"])


@router.get("")
def list_tokens(
    identity: IdentityDep,
    session: ReadSession,
    everyone: Annotated[bool, Query(description="Those of all users, for admins")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> TokenPage:
    """One's own tokens and sessions, newest first, also those that are over."""
    if everyone and not allows(identity.role, "admin"):
        raise ForbiddenError("only an admin sees the tokens of others")
    return TokenPage.from_rows(tokens.tokens(session, None if everyone else identity.user_id, limit, cursor))


@router.post("", status_code=201, responses=documented(404, 409))
def create_token(
    body: TokenRequest, response: Response, identity: UnrestrictedIdentity, settings: SettingsDep, database: DatabaseDep
) -> NewToken:
    """Its secret is shown this once. It allows what its scope says, and never more than its user may. It ends with the token that it is
    made with."""
    with database.write() as session:
        token = issued(session, identity, users.find(session, identity.user_id), body, settings.tokens_per_user)
        point_to(response, "tokens", token.id)
        return token


@router.delete("/{token_id}", status_code=204, responses=documented(404, 409))
def revoke_token(token_id: str, identity: UnrestrictedIdentity, database: DatabaseDep) -> None:
    """Ends a token or session of one's own (an admin: of anybody), and all that comes from it: sessions and tokens."""
    with database.write() as session, users.keeping_a_way_in(session):
        token = tokens.find(session, token_id)
        if token.user_id != identity.user_id and not allows(identity.role, "admin"):
            raise NotFoundError(f"there is no token {token_id}")
        tokens.revoke(session, token)


def issued(session: Session, identity: Identity, user: User, body: TokenRequest, most: int) -> NewToken:
    """A new token of ``user``; ForbiddenError if its scope is beyond them, NotFoundError if its project is out of the maker's sight,
    ConflictError if the user has ``most`` of them."""
    if not allows(user.role, body.scope):
        raise ForbiddenError(f"a token of {user.name} can be for the role {user.role} at most")
    seconds = None if body.days is None else body.days * DAY_SECONDS
    if body.project_id is not None:
        membership_check.find_project(session, identity, body.project_id)
    tokens.make_room(session, user, "token", most)
    root_id = identity.token_id if user.id == identity.user_id else None
    token, secret = tokens.issue(session, user, "token", body.name, body.scope, seconds, root_id, body.project_id)
    return NewToken(token=secret, **Token.model_validate(token).model_dump())
