"""Webhooks: what is told, exactly when it happens; sent until it arrives, signed, and by one sender at a time."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from typing import Any

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken
from receiver import Receiver
from sqlalchemy import select, update
from webhook_cases import subscribe, waiting

from backend.api.background.webhook_sender import WebhookSender
from backend.database import Database
from backend.errors import NotFoundError
from backend.models import Delivery, Project, Run, Webhook, new_id
from backend.services.runs import control
from backend.services.runs.attempts import Outcome, claim, settle
from backend.services.runs.lifecycle import transition
from backend.services.webhooks import deliveries, subscriptions
from backend.settings import Settings
from longtail import ApiError, Longtail
from longtail.schemas.webhooks import ENDINGS


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"webhook_networks": (ip_network("127.0.0.0/8"),)})


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(204) as receiver:
        yield receiver


class SenderInThread(WebhookSender):
    """Delivers as in production: in a thread that has no event loop of its own. Playwright's may be running in this one."""

    def deliver(self) -> int:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(super().deliver).result()


@pytest.fixture
def webhook_sender(database: Database, settings: Settings) -> WebhookSender:
    return SenderInThread(database, settings)


def later(database: Database, seconds: float) -> None:
    """Lets that much time pass for what waits."""
    with database.write() as session:
        session.execute(update(Delivery).values(next_try_at=Delivery.next_try_at - seconds))


def lose(database: Database, run_id: str) -> None:
    with database.write() as session:
        taken = claim(session, run_id, new_id(), 60)
        assert taken is not None
        settle(session, run_id, taken.attempt, Outcome("lost", error="gone"), 5)


def test_a_change_of_state_and_its_message_are_one_transaction(database: Database, run_id: str) -> None:
    subscribe(database, 9)

    def break_off() -> None:
        with database.write() as session:
            assert transition(session, run_id, "cancelled")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert waiting(database) == []
    lose(database, run_id)
    with database.write() as session:
        assert not transition(session, run_id, "running"), "refused, so nothing to tell"
        control.cancel(session, run_id)
    assert sorted(event for event, _, _ in waiting(database)) == ["run.cancelled", "run.queued", "run.starting"]


def test_only_what_was_asked_for_is_told(database: Database, run_id: str) -> None:
    subscribe(database, 9, "run.failed")
    lose(database, run_id)
    assert waiting(database) == []


def test_a_webhook_of_a_project_hears_of_its_runs_only(database: Database, run_id: str) -> None:
    with database.write() as session:
        other = Project(name="other")
        session.add(other)
        session.flush()
        for project_id in (other.id, session.get_one(Run, run_id).project_id):
            subscriptions.add(session, "http://127.0.0.1:9/hook", ["run.starting"], project_id)
        with pytest.raises(NotFoundError):
            subscriptions.add(session, "http://127.0.0.1:9/hook", ["run.starting"], "f" * 16)
    lose(database, run_id)
    assert [event for event, _, _ in waiting(database)] == ["run.starting"]


def test_a_message_is_signed_so_that_its_receiver_can_tell(
    database: Database, webhook_sender: WebhookSender, receiver: Receiver, run_id: str
) -> None:
    """By hand, as the Standard Webhooks specification says."""
    webhook_id = subscribe(database, receiver.port, "run.cancelled")
    with database.write() as session:
        control.cancel(session, run_id)
    assert webhook_sender.deliver() == 1
    (received,) = receiver.received
    with database.read() as session:
        secret = session.get_one(Webhook, webhook_id).secret
    key = base64.b64decode(secret.removeprefix("whsec_"))
    headers = received.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + received.body
    assert headers["webhook-signature"] == "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    body = json.loads(received.body)
    assert (body["type"], body["data"]["run"]["state"], received.path) == ("run.cancelled", "cancelled", "/hook")
    assert waiting(database) == [("run.cancelled", "delivered", 1)]
    assert webhook_sender.deliver() == 0


def test_a_message_that_does_not_arrive_is_sent_later_and_later_and_given_up_at_last(
    database: Database, webhook_sender: WebhookSender, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver(500) as receiver:
        subscribe(database, receiver.port, "run.cancelled")
        with database.write() as session:
            control.cancel(session, run_id)
        now, pauses = time.time(), []
        monkeypatch.setattr(time, "time", lambda: now)
        for _ in range(deliveries.MOST_TRIES):
            assert webhook_sender.deliver() == 1
            assert webhook_sender.deliver() == 0, "not at once"
            with database.read() as session:
                pauses.append(session.scalars(select(Delivery.next_try_at)).one() - now)
            later(database, pauses[-1] + 1)
        assert webhook_sender.deliver() == 0
    assert waiting(database) == [("run.cancelled", "failed", deliveries.MOST_TRIES)]
    assert [round(pause) for pause in pauses[:4]] == [10, 30, 90, 270]
    assert max(pauses) <= deliveries.LONGEST_PAUSE_SECONDS
    assert 12 * 3600 < sum(pauses) < 36 * 3600
    assert len({received.headers["webhook-id"] for received in receiver.received}) == 1, "its receiver can tell that it has it already"


def test_a_receiver_that_comes_back_gets_what_it_missed(database: Database, webhook_sender: WebhookSender, run_id: str) -> None:
    with Receiver(503, 200) as receiver:
        subscribe(database, receiver.port, "run.cancelled")
        with database.write() as session:
            control.cancel(session, run_id)
        webhook_sender.deliver()
        later(database, 11)
        webhook_sender.deliver()
    assert waiting(database) == [("run.cancelled", "delivered", 2)]


@pytest.mark.parametrize(("answer", "said"), [(302, "answered 302"), (404, "answered 404")])
def test_what_is_no_success_is_none(database: Database, webhook_sender: WebhookSender, answer: int, said: str) -> None:
    with Receiver(answer) as receiver:
        webhook_id = subscribe(database, receiver.port)
        with database.write() as session:
            deliveries.ping(session, subscriptions.find(session, webhook_id))
        webhook_sender.deliver()
        assert len(receiver.received) == 1
    with database.read() as session:
        (ping,) = session.scalars(select(Delivery)).all()
        assert (ping.state, ping.status, ping.error) == ("failed", answer, said)


def test_a_private_address_is_not_sent_to(database: Database, settings: Settings, receiver: Receiver) -> None:
    webhook_id = subscribe(database, receiver.port)
    with database.write() as session:
        deliveries.ping(session, subscriptions.find(session, webhook_id))
    SenderInThread(database, settings.model_copy(update={"webhook_networks": ()})).deliver()
    assert receiver.received == []
    with database.read() as session:
        assert "LONGTAIL_WEBHOOK_NETWORKS" in (session.scalars(select(Delivery.error)).one() or "")


def test_many_senders_send_each_message_once(database: Database, settings: Settings, receiver: Receiver, run_id: str) -> None:
    subscribe(database, receiver.port)
    for _ in range(15):
        lose_quietly(database, run_id)
    with ThreadPoolExecutor(6) as pool:
        tries = list(pool.map(lambda _: WebhookSender(database, settings).deliver(), range(6)))
    sent = [received.headers["webhook-id"] for received in receiver.received]
    assert sum(tries) == len(sent) == len(set(sent)) == 30


def lose_quietly(database: Database, run_id: str) -> None:
    with database.write() as session:
        transition(session, run_id, "starting")
        transition(session, run_id, "queued")


def test_what_a_killed_sender_had_in_hand_another_sends(
    database: Database, webhook_sender: WebhookSender, receiver: Receiver, run_id: str
) -> None:
    subscribe(database, receiver.port, "run.cancelled")
    with database.write() as session:
        control.cancel(session, run_id)
    with database.write() as session:
        (held,) = deliveries.claim_due(session, time.time())
    assert webhook_sender.deliver() == 0, "it may still be sent"
    later(database, deliveries.HOLD_SECONDS + 1)
    assert webhook_sender.deliver() == 1
    with database.write() as session:
        deliveries.record_try(session, held, None, "late", time.time())
    assert waiting(database) == [("run.cancelled", "delivered", 2)], "what the first one has to say is late"


def test_a_removed_webhook_hears_nothing_more(database: Database, webhook_sender: WebhookSender, receiver: Receiver, run_id: str) -> None:
    webhook_id = subscribe(database, receiver.port)
    lose(database, run_id)
    with database.write() as session:
        subscriptions.remove(session, subscriptions.find(session, webhook_id))
    assert (webhook_sender.deliver(), waiting(database)) == (0, [])


def test_a_webhook_that_is_removed_meanwhile_does_not_stop_a_run(database: Database, run_id: str) -> None:
    webhook_id = subscribe(database, 9)

    def cancel() -> str:
        with database.write() as session:
            return control.cancel(session, run_id).state

    with ThreadPoolExecutor(1) as pool:
        with database.write() as session:
            subscriptions.remove(session, subscriptions.find(session, webhook_id))
            cancelling = pool.submit(cancel)
            time.sleep(0.3)
            assert not cancelling.done()
        assert cancelling.result(60) == "cancelled"
    assert waiting(database) == []


def test_old_messages_are_forgotten(database: Database, webhook_sender: WebhookSender, receiver: Receiver, run_id: str) -> None:
    subscribe(database, receiver.port)
    lose(database, run_id)
    webhook_sender.deliver()
    with database.write() as session:
        session.execute(update(Delivery).values(created_at=Delivery.created_at - deliveries.KEEP_SECONDS - 1))
        transition(session, run_id, "cancelled")
    webhook_sender.deliver()
    assert waiting(database) == [("run.cancelled", "delivered", 1)]


def test_a_deleted_run_has_been_told_of(database: Database, webhook_sender: WebhookSender, receiver: Receiver, run_id: str) -> None:
    """A message does not need its run any more."""
    subscribe(database, receiver.port, "run.cancelled")
    with database.write() as session:
        control.cancel(session, run_id)
        session.delete(session.get_one(Run, run_id))
    assert webhook_sender.deliver() == 1


@pytest.fixture
def admin(anonymous: TestClient, new_token: NewToken) -> TestClient:
    anonymous.headers["Authorization"] = f"Bearer {new_token('admin')}"
    return anonymous


def test_the_secret_is_shown_once_and_the_write_is_audited(admin: TestClient) -> None:
    made = admin.post("/api/v1/webhooks", json={"url": "https://hooks.example/in"}).json()
    assert made["secret"].startswith("whsec_")
    assert made["events"] == sorted(ENDINGS)
    assert "secret" not in admin.get("/api/v1/webhooks").json()["items"][0]
    entry = admin.get("/api/v1/audit").json()["items"][0]
    assert (entry["action"], entry["object"]) == ("add_webhook", f"webhooks/{made['id']}")
    assert admin.delete(f"/api/v1/webhooks/{made['id']}").status_code == 204
    assert admin.get(f"/api/v1/webhooks/{made['id']}/deliveries").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"url": "ftp://hooks.example"},
        {"url": "https://user:password@hooks.example"},
        {"url": "https://"},
        {"url": "https://hooks.example/\n"},
        {"url": "file:///etc/passwd"},
        {"url": "https://hooks.example:99999"},
        {"url": "https://hooks.example", "events": []},
        {"url": "https://hooks.example", "events": ["run.dreaming"]},
        {"url": "https://hooks.example", "secret": "mine"},
    ],
)
def test_what_is_no_webhook_is_refused(admin: TestClient, body: dict[str, Any]) -> None:
    assert admin.post("/api/v1/webhooks", json=body).status_code == 422


def test_there_are_only_so_many(admin: TestClient, database: Database) -> None:
    for _ in range(subscriptions.MOST):
        subscribe(database, 9)
    assert admin.post("/api/v1/webhooks", json={"url": "https://hooks.example"}).status_code == 409


def test_by_client_a_ping_arrives(client: Longtail, receiver: Receiver) -> None:
    """Through a real server and its sender."""
    made = client.add_webhook(f"http://127.0.0.1:{receiver.port}/")
    sent = client.test_webhook(made.id)
    deadline = time.monotonic() + 60
    while client.deliveries(made.id).items[0].state == "pending":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (delivery,) = client.deliveries(made.id).items
    assert (delivery.id, delivery.state, delivery.status, delivery.event) == (sent.id, "delivered", 204, "ping")
    client.remove_webhook(made.id)
    with pytest.raises(ApiError, match="there is no webhook"):
        client.deliveries(made.id)
