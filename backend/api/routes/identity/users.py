"""Users, for admins."""

from fastapi import APIRouter, Response
from pydantic import SecretStr

from backend.api.dependencies import Cursor, DatabaseDep, Limit, ReadSession, SettingsDep, UnrestrictedIdentity
from backend.api.error_responses import documented
from backend.api.location import point_to
from backend.api.routes.identity.tokens import issued
from backend.services.identity import users
from longtail.schemas.identity import NewToken, TokenRequest, User, UserChange, UserPage, UserRequest

router = APIRouter(prefix="/users", tags=["users"])


@router.get("")
def list_users(session: ReadSession, limit: Limit = 50, cursor: Cursor = None) -> UserPage:
    """Newest first."""
    return UserPage.from_rows(users.users(session, limit, cursor))


@router.post("", status_code=201, responses=documented(409))
def add_user(body: UserRequest, response: Response, _: UnrestrictedIdentity, database: DatabaseDep) -> User:
    with database.write() as session:
        user = users.create(session, body.name, body.role, _text(body.password))
        point_to(response, "users", user.id)
        return User.model_validate(user)


@router.patch("/{user_id}", responses=documented(404, 409))
def change_user(user_id: str, body: UserChange, _: UnrestrictedIdentity, database: DatabaseDep) -> User:
    """Refused with 409 if nobody could administer any more. A disabled user's tokens stop at once; a new password ends the sessions,
    and the tokens that the user has made."""
    with database.write() as session:
        user = users.find(session, user_id)
        users.change(session, user, body.role, body.disabled, _text(body.password))
        return User.model_validate(user)


@router.post("/{user_id}/tokens", status_code=201, responses=documented(404, 409))
def create_user_token(
    user_id: str, body: TokenRequest, response: Response, identity: UnrestrictedIdentity, settings: SettingsDep, database: DatabaseDep
) -> NewToken:
    """A token to hand to the user. Its secret is shown this once."""
    with database.write() as session:
        token = issued(session, identity, users.find(session, user_id), body, settings.tokens_per_user)
        point_to(response, "tokens", token.id)
        return token


def _text(password: SecretStr | None) -> str | None:
    return None if password is None else password.get_secret_value()
