"""kombu's Redis transport, but for one thing: a worker does not go deaf.

It holds one message at a time. If Redis is away at the moment of its acknowledgement, kombu gives that up and counts the message as in
hand for ever, so that the worker never asks for another. Here it is out of hand in any case; if Redis still has it, it comes again after
the visibility timeout, and does no harm.
"""

from kombu.transport import redis, virtual


class QoS(redis.QoS):
    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except Exception:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]
            raise


class Channel(redis.Channel):
    QoS = QoS


class Transport(redis.Transport):
    Channel = Channel
