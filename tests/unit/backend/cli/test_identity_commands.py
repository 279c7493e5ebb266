"""Accounts from a shell, and which token a client takes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backend import cli
from backend.settings import Settings
from longtail import ApiError, Longtail
from longtail.logins import discover, token_for

LONG = "correct horse battery"


def longtail(*arguments: str, typed: str = "") -> str:
    result = CliRunner().invoke(cli.app, list(arguments), input=typed)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str, typed: str = "") -> str:
    result = CliRunner().invoke(cli.app, list(arguments), input=typed)
    assert result.exit_code == 2, result.output
    return result.stderr


def test_users_from_a_shell(client: Longtail) -> None:
    token = longtail("user", "add", "ada", "--role", "viewer").strip()
    with Longtail(client.base_url, token) as ada:
        assert (ada.me().user, ada.me().role) == ("ada", "viewer")
        assert "ada" in longtail("user", "list")
        longtail("user", "disable", "ada")
        with pytest.raises(ApiError, match="longtail login"):
            ada.me()
        longtail("user", "enable", "ada")
        assert "editor" in longtail("user", "role", "ada", "editor")
        assert ada.me().user_role == "editor"
    assert "there is no user bob" in refused("user", "disable", "bob")
    assert "god is no role" in refused("user", "add", "bob", "--role", "god")
    assert "nobody could administer" in refused("user", "disable", "admin")


def test_tokens_from_a_shell(client: Longtail) -> None:
    token = longtail("token", "create", "ci", "--scope", "viewer", "--days", "0").strip()
    assert token not in longtail("token", "list")
    with Longtail(client.base_url, token) as ci:
        assert ci.me().role == "viewer"
        longtail("token", "revoke", token.split("_")[1])
        with pytest.raises(ApiError):
            ci.me()
    assert "revoked" in longtail("token", "list", "--all")


def test_a_login_is_kept_for_its_server_and_goes_by_logging_out(client: Longtail, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    longtail("user", "add", "ada", "--password", typed=f"{LONG}\n{LONG}\n")
    for name in ("LONGTAIL_URL", "LONGTAIL_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "laptop"))
    assert "as ada (editor)" in longtail("login", client.base_url, "--user", "ada", typed=f"{LONG}\n").replace("\n", "")
    kept = next((tmp_path / "config").rglob("logins.json"))
    assert kept.stat().st_mode & 0o777 == 0o600
    assert discover() == client.base_url
    assert token_for("http://127.0.0.1:1") == ""
    assert longtail("runs")
    longtail("logout", client.base_url)
    assert token_for(client.base_url) == ""
    assert "not logged in" in refused("login", client.base_url, typed="wrong\n").lower() or kept.exists()
    assert json.loads(kept.read_text())["tokens"] == {}


def test_the_home_s_token_goes_to_the_home_s_server_only(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(settings.home))
    settings.home.mkdir()
    settings.token_file.write_text("secret\n")
    assert token_for("http://127.0.0.1:8000") == "", "nobody knows who listens there"
    settings.server_file.write_text('{"url": "http://127.0.0.1:4711"}')
    assert token_for("http://127.0.0.1:4711") == "secret"
    assert token_for("http://elsewhere") == ""
    monkeypatch.setenv("LONGTAIL_TOKEN", "given")
    assert token_for("http://127.0.0.1:4711") == "given"
