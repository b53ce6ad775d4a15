"""`Consumer`: the process runtime in three lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sublet.consumer.defaults import process_defaults
from sublet.handler import UserHandler
from sublet.handlers.load import handler_of
from sublet.protocol.stream_identity import StreamArn
from sublet.settings import Settings

if TYPE_CHECKING:  # what `import sublet` does without; the methods load it
    from sublet.ports import Ports


class Consumer:
    """An application's consumer in this process: one more worker on its leases, beside Lambda, KCL and other processes.

        consumer = Consumer("orders-audit", "orders", handle)
        consumer.run()

    application   the consumer group: its lease table bears this name
    stream        a name, or an ARN
    handler       a function that takes a Batch, an object or module with `handle`, or `module:function`. Called from threads
                  of this consumer's own; one call at a time, unless `handler_concurrency` says otherwise
    ports         over AWS if not given; `sublet.memory.memory_ports(stream)` over memory
    settings      any other of Settings, by name. A process is continuous and a worker of its own unless told otherwise

    Raises SettingsError and HandlerNotLoadable. AWS is not asked for anything before `run`.
    """

    def __init__(
        self,
        application: str,
        stream: str,
        handler: UserHandler,
        *,
        ports: Ports | None = None,
        **settings: Any,
    ) -> None:
        from sublet.system.threads import ThreadTasks

        self.settings = Settings(
            **{**process_defaults(application), **settings, "application": application, **_named(stream)}
        )
        handler_of(handler, self.settings)  # what cannot be used is refused here
        self._handler = handler
        self._ports = ports
        self._stop = (ThreadTasks() if ports is None else ports.tasks).signal()

    def run(self, *, until_signalled: bool = False, create_tables: bool = True) -> None:
        """Consume until `stop`; then checkpoint and release every lease, so that others go on at once, and return.

        `until_signalled`: SIGTERM and SIGINT stop it too, as when a container ends, or at Ctrl-C; the second ends the process at
        once, saying which leases it leaves. Only in the main thread.
        `create_tables`: over AWS, make the lease table and the sightings' table if there are none, as KCL does.
        Raises what is not transient, such as LeaseTableNotFound or StreamAccessDenied, after everything has been released; and
        ProcessSpent if only a new process can go on: calls of the handler hang, or there are no more threads or descriptors.
        """
        from sublet.runtimes.ending import stop_at_signals
        from sublet.runtimes.process import ConsumerProcess

        running: list[ConsumerProcess] = []
        if until_signalled:
            stop_at_signals(self._stop, lambda: [left for process in running for left in process.left()])
        settings, ports = self.settings, self._ports
        if ports is None:
            from sublet.consumer.over_aws import over_aws

            ports, settings = over_aws(settings, self._stop, may_create=create_tables)
        running.append(ConsumerProcess(ports, handler_of(self._handler, settings), settings, self._stop))
        running[0].run()

    def stop(self) -> None:
        """Have `run` end within seconds, or after the handler's call. From any thread, or a signal handler; and for good."""
        self._stop.set()


def _named(stream: str) -> dict[str, str]:
    """The settings that say which stream, by its name or its ARN."""
    if stream.startswith("arn:"):
        return {"stream": StreamArn.parse(stream).stream, "stream_arn": stream}
    return {"stream": stream}
