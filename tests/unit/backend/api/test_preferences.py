"""What users keep for the dashboard: everyone their own."""

from fastapi.testclient import TestClient
from new_token import NewToken


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_everyone_keeps_their_own(anonymous: TestClient, new_token: NewToken) -> None:
    """A viewer too: it changes nothing but their own pages."""
    ada, bob = bearer(new_token("viewer", "ada")), bearer(new_token("editor", "bob"))
    pinned = ["kl", {"name": "<b>\0"}]
    assert anonymous.put("/api/v1/preferences/pinned-metrics", json={"value": pinned}, headers=ada).status_code == 200
    assert anonymous.get("/api/v1/preferences", headers=ada).json() == {"values": {"pinned-metrics": ["kl", {"name": "<b>\u2400"}]}}
    assert anonymous.get("/api/v1/preferences", headers=bob).json() == {"values": {}}
    anonymous.put("/api/v1/preferences/pinned-metrics", json={"value": []}, headers=ada)
    assert anonymous.get("/api/v1/preferences", headers=ada).json() == {"values": {"pinned-metrics": []}}


def test_it_cannot_grow_without_end(api: TestClient) -> None:
    assert api.put("/api/v1/preferences/x", json={"value": ["x" * 2**17]}).status_code == 422
    assert api.put("/api/v1/preferences/Not a name", json={"value": []}).status_code == 422
    for number in range(100):
        assert api.put(f"/api/v1/preferences/{number}", json={"value": []}).status_code == 200
    assert api.put("/api/v1/preferences/one-more", json={"value": []}).status_code == 409
    assert api.put("/api/v1/preferences/7", json={"value": [1]}).status_code == 200
