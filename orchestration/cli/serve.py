"""`sluice serve`: the web service, until it is stopped."""

import os
import socket

from orchestration.cli.output import print_json, say
from orchestration.cli.session import open_warehouse, prepare_logs, read_settings, start_services
from orchestration.console.app import Service, listening_pipelines, make_app
from orchestration.console.login import Login
from orchestration.console.nudge import Nudge
from orchestration.console.signatures import read_secrets
from orchestration.errors import ConfigurationError
from orchestration.pipelines.files import load_pipelines
from orchestration.triggers.starters import choose_starter

_BACKLOG = 2048
# The platform waits 30 seconds after SIGTERM.
_LAST_ANSWERS_S = 20
_IDLE_S = 120


def serve(*, host: str, port: int, as_json: bool) -> None:
    """Serves until SIGTERM. Raises `ConfigurationError` with every secret that is missing."""
    import uvicorn

    settings = read_settings()
    prepare_logs(settings)
    password, token = settings.console_password, settings.metrics_token
    login = Login(
        password.get_secret_value() if password else "",
        token.get_secret_value() if token else None,
    )
    listening = listening_pipelines(load_pipelines(settings.pipelines_dir))
    verifiers = read_secrets(listening, os.environ)
    # A warehouse elsewhere is brought up to date before this starts, and may be away while it does.
    warehouse = start_services(settings, say) if settings.is_embedded else open_warehouse(settings)
    nudge = Nudge(choose_starter(settings).start_dispatch)
    app = make_app(Service(warehouse, login, verifiers, listening, nudge))
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}"
    if as_json:
        print_json(
            {"url": url, "webhooks": [f"{url}/webhooks/{name}" for name in sorted(listening)]}
        )
    else:
        say(f"serving on {url}; Ctrl-C stops it")
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        # Who is asked first, and speaks TLS, is the platform's proxy; nobody else reaches this port.
        forwarded_allow_ips=os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1"),
        # A proxy or sender that keeps a connection would else send into one that is just being closed.
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_LAST_ANSWERS_S,
        lifespan="on",
    )
    uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"{host}:{port} cannot be listened on ({error.strerror}); choose another --host or --port",
            code="address",
        ) from None
    # Connections inherit it. asyncio sets it only where a socket names its protocol, which this one does
    # not; without it every answer after a connection's first waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
