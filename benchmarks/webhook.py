"""What it costs a sender that a message is verified, judged and kept, beside only inserting one row.

    make benchmark-webhook
    python benchmarks/webhook.py [--rate 200] [--seconds 20] [--rounds 3] [--json]

Two servers of the same kind in processes of their own, on one warehouse made for the occasion: `sluice
serve`, and a bare handler that reads the body and inserts one row through a pool of the same size.
Requests are sent at a fixed rate whether or not earlier ones were answered, to one server after the
other, in turns; each is timed from the moment it was due. Wanted: p99 at most 2 times the bare one's.
"""

import argparse
import asyncio
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from standardwebhooks import Webhook
from stored_versions import warehouse_for

from orchestration.warehouse.connections import Role, Warehouse

WANTED = 2.0
SECRET = "whsec_" + base64.b64encode(b"a secret for the benchmark only").decode()
BODY = json.dumps(
    {
        "type": "partitions.ready",
        "timestamp": "2013-02-02T06:00:00Z",
        "data": {"resource": "flights.flights", "days": ["2013-02-01"]},
    }
).encode()
_SLUICE = "import sys; sys.argv[0] = 'sluice'; from orchestration.cli import main; main()"
_CONNECTIONS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=200, help="requests a second")
    parser.add_argument("--seconds", type=int, default=20, help="length of a turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        serve_bare(asked.bare)
        return
    with warehouse_for(None) as warehouse:
        figures = measure(warehouse, asked.rate, asked.seconds, asked.rounds)
        if asked.json:
            print(json.dumps(figures, indent=2))
        else:
            for name, value in figures.items():
                print(f"{name:<24} {value}")


def measure(warehouse: Warehouse, rate: int, seconds: int, rounds: int) -> dict[str, Any]:
    """Milliseconds over all turns, and the ratio of the two p99."""
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("create table public.bare (id text primary key, body text)")
        owner.execute("grant usage on schema public to sluice_webhook")
        owner.execute("grant insert on public.bare to sluice_webhook")
    took: dict[str, list[float]] = {"sluice": [], "bare": []}
    with sluice(warehouse) as ours, bare(warehouse) as theirs:
        urls = {"sluice": f"{ours}/webhooks/flights", "bare": f"{theirs}/"}
        for url in urls.values():
            asyncio.run(send(url, rate, 2))
        for _ in range(rounds):
            for name, url in urls.items():
                took[name] += asyncio.run(send(url, rate, seconds))
    figures: dict[str, Any] = {"requests of each": len(took["bare"])}
    for name, values in took.items():
        cuts = statistics.quantiles(values, n=100)
        figures[f"{name} p50 ms"] = round(cuts[49] * 1000, 2)
        figures[f"{name} p99 ms"] = round(cuts[98] * 1000, 2)
    figures["ratio of p99"] = round(figures["sluice p99 ms"] / figures["bare p99 ms"], 2)
    figures["wanted"] = f"at most {WANTED}"
    return figures


async def send(url: str, rate: int, seconds: int) -> list[float]:
    """Seconds from when each request was due to its answer. Fails on any answer that is no 202."""
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=100)
    async with httpx.AsyncClient(timeout=30, limits=limits) as client:
        began = time.perf_counter() + 0.1

        async def one(number: int) -> float:
            due = began + number / rate
            headers = signed(f"msg_{time.time_ns()}_{number}")
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            answer = await client.post(url, content=BODY, headers=headers)
            assert answer.status_code == 202, answer.text
            return time.perf_counter() - due

        return await asyncio.gather(*map(one, range(rate * seconds)))


def signed(message_id: str) -> dict[str, str]:
    now = datetime.now(UTC)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign(message_id, now, BODY.decode()),
    }


@contextmanager
def sluice(warehouse: Warehouse) -> Iterator[str]:
    """`sluice serve`; a workflow platform that is not there is what it tries to start."""
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "SLUICE_WAREHOUSE_URL": warehouse.owner_url,
            "SLUICE_HOME": home,
            "SLUICE_CONSOLE_PASSWORD": "for the benchmark only",
            "SLUICE_WEBHOOK_SECRETS_FLIGHTS": SECRET,
            "SLUICE_WORKFLOW": "none",
            "RENDER_LOCAL_DEV_URL": "http://127.0.0.1:1",
        }
        command = [sys.executable, "-c", _SLUICE, "serve", "--port", "0", "--json"]
        with process(command, environment, Path(home)) as url:
            yield url


@contextmanager
def bare(warehouse: Warehouse) -> Iterator[str]:
    command = [sys.executable, __file__, "--bare", warehouse.url(Role.WEBHOOK)]
    with tempfile.TemporaryDirectory() as home, process(command, {}, Path(home)) as url:
        yield url


@contextmanager
def process(command: list[str], environment: dict[str, str], home: Path) -> Iterator[str]:
    """A server that prints `{"url": …}` when it listens."""
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert server.stdout is not None
    try:
        lines = []
        for line in server.stdout:
            lines.append(line)
            if line.rstrip() == "}":
                break
        yield json.loads("".join(lines))["url"]
    finally:
        server.terminate()
        server.wait(30)


def serve_bare(url: str) -> None:
    """One handler: read the body, insert one row, answer 202."""
    import socket

    import uvicorn
    from psycopg_pool import AsyncConnectionPool
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    pool = AsyncConnectionPool(
        url, kwargs={"autocommit": True}, min_size=1, max_size=_CONNECTIONS, open=False
    )

    async def insert(request: Request) -> JSONResponse:
        body = await request.body()
        async with pool.connection() as connection:
            await connection.execute(
                "insert into public.bare values (%s, %s)",
                [request.headers["webhook-id"], body.decode()],
                prepare=True,
            )
        return JSONResponse({"status": "accepted"}, 202)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with pool:
            yield

    app = Starlette(routes=[Route("/", insert, methods=["POST"])], lifespan=lifespan)
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(
        json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}, indent=2), flush=True
    )
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", timeout_keep_alive=120
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
