"""Secrets are rotated by having two for a while; without one, nothing is served."""

from pathlib import Path

import pytest
from harness import Sluice
from web_service import PASSWORD, READY, SECRET, WebService, secret

from ingestion.demo_api.server import DemoServer
from orchestration.console.login import Login
from orchestration.console.signatures import read_secrets
from orchestration.errors import ConfigurationError
from orchestration.warehouse.connections import Warehouse

OLD = secret("old")


def test_both_secrets_count_while_both_are_there(
    warehouse: Warehouse, tmp_path: Path, demo_server: DemoServer
) -> None:
    sluice = Sluice(warehouse, tmp_path, demo_server)
    absent = {"SLUICE_WORKFLOW": "none", "RENDER_LOCAL_DEV_URL": "http://127.0.0.1:1"}
    with WebService(sluice, absent | {"SLUICE_WEBHOOK_SECRETS_FLIGHTS": f"{SECRET} {OLD}"}) as web:
        assert web.send(READY, "new", key=SECRET).status_code == 202
        assert web.send(READY, "old", key=OLD).status_code == 202
        assert web.send(READY, "none", key=secret("older")).status_code == 401


def test_everything_that_is_missing_is_said_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_secrets(["flights", "ships", "trains"], {"SLUICE_WEBHOOK_SECRETS_SHIPS": "whsec_x"})
    for name in ("FLIGHTS is not set", "SHIPS has a secret of less", "TRAINS is not set"):
        assert f"SLUICE_WEBHOOK_SECRETS_{name}" in caught.value.message


@pytest.mark.parametrize("password", ["", "short"])
def test_pages_are_not_served_without_a_password(password: str) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_CONSOLE_PASSWORD"):
        Login(password)


def test_the_service_does_not_start_without_its_secrets(
    warehouse: Warehouse, tmp_path: Path, demo_server: DemoServer
) -> None:
    sluice = Sluice(warehouse, tmp_path, demo_server)
    assert sluice.json("serve", "--port", "0", code=78)["error"]["code"] == "console_password"
    sluice.extra = {"SLUICE_CONSOLE_PASSWORD": PASSWORD}
    assert sluice.json("serve", "--port", "0", code=78)["error"]["code"] == "webhook_secret"
