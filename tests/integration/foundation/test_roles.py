"""Roles get the passwords that the environment says; nobody is shown one."""

import base64
import hashlib
import hmac

import psycopg
from warm import WarmSluice

from orchestration.warehouse.connections import Role, Warehouse, derive_password
from orchestration.warehouse.embedded import EmbeddedServer

GIVEN = "a password for the webhook role"


def is_password(server: EmbeddedServer, role: Role, password: str) -> bool:
    """Whether the server would let this role in with it (SCRAM-SHA-256, RFC 5802)."""
    with psycopg.connect(server.superuser_url("postgres")) as connection:
        row = connection.execute(
            "select rolpassword from pg_authid where rolname = %s", [role]
        ).fetchone()
    assert row is not None
    _, setting, keys = row[0].split("$")
    rounds, salt = setting.split(":")
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(rounds))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return base64.b64encode(hashlib.sha256(client_key).digest()).decode() == keys.split(":")[0]


def test_sync_sets_the_password_of_each_role(sluice: WarmSluice, server: EmbeddedServer) -> None:
    for secret in ("the first secret", "the second secret"):
        sluice.extra = {"SLUICE_ROLES_SECRET": secret, "SLUICE_PASSWORD_WEBHOOK": GIVEN}
        rows = {row["role"]: row for row in sluice.json("roles", "sync")}
        assert rows.keys() == set(Role)
        assert all(row["can_log_in"] for row in rows.values())
        assert rows["sluice_webhook"]["password"] == "SLUICE_PASSWORD_WEBHOOK"
        assert rows["sluice_gate"]["password"] == "SLUICE_ROLES_SECRET"
        assert is_password(server, Role.WEBHOOK, GIVEN)
        for role in (Role.GATE, Role.CONSOLE):
            assert is_password(server, role, derive_password(secret, role))
    assert GIVEN not in sluice.call("roles", "list").stdout


def test_a_password_of_its_own_counts_for_its_role_alone() -> None:
    warehouse = Warehouse("postgresql://o:p@h/d", "secret", passwords={Role.WEBHOOK: GIVEN})
    assert warehouse.role_password(Role.WEBHOOK) == GIVEN
    assert warehouse.role_password(Role.GATE) == derive_password("secret", Role.GATE)
    assert "a%20password%20for" in warehouse.url(Role.WEBHOOK)
    assert GIVEN not in repr(warehouse)
    assert "secret" not in repr(warehouse)
