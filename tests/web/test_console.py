"""Pages about runs are for whoever has logged in, and are made by a role that can only read."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from platform_api import PlatformApi
from playwright.sync_api import Browser
from prometheus_client.parser import text_string_to_metric_families
from web_service import PASSWORD, TOKEN, WebService

from orchestration.console.login import COOKIE, Login

WINDY = "2013-02-12"
CLOSED = ("/runs", "/runs/r_1", "/reports/r_1")


@pytest.fixture(scope="module")
def served(shared_sluice: Any) -> Iterator[WebService]:
    """A service over one published run whose weather has one unusable record."""
    shared_sluice.run(WINDY)
    with PlatformApi() as api, WebService(shared_sluice, api.environment) as service:
        yield service


@pytest.fixture
def web(served: WebService) -> WebService:
    served.client.cookies.clear()
    return served


def run_id(web: WebService) -> str:
    return str(web.sluice.query("select run_id from ops.runs")[0][0])


def test_nothing_is_shown_to_who_has_not_logged_in(web: WebService) -> None:
    for path in CLOSED:
        answer = web.client.get(path)
        assert (answer.status_code, answer.text) == (303, ""), path
        assert answer.headers["location"] == "/login?next=" + path.replace("/", "%2F")
    assert web.client.get("/metrics").status_code == 401
    wrong = web.client.post("/login", data={"password": PASSWORD[:-1]})
    assert (wrong.status_code, COOKIE in wrong.cookies) == (403, False)


def test_a_session_cannot_be_made_up_and_ends(web: WebService) -> None:
    web.log_in()
    good = web.client.cookies[COOKIE]
    expires, _, signature = good.partition(".")
    login = Login(PASSWORD)
    past = str(int(time.time()) - 1)
    made_up = [
        f"{int(expires) + 1}.{signature}",
        f"{past}.{login._sign(past)}",
        f"{expires}.{Login('another long password')._sign(expires)}",
        expires,
        "",
        "é.x",
    ]
    assert web.client.get("/runs").status_code == 200
    for value in made_up:
        header = {"cookie": f"{COOKIE}={value}".encode()}
        web.client.cookies.clear()
        assert web.client.get("/runs", headers=header).status_code == 303, value
    web.log_in()
    web.client.post("/logout")
    assert web.client.get("/runs").status_code == 303


def test_a_login_leads_nowhere_else(web: WebService) -> None:
    for target in ("https://evil.example", "//evil.example", "/\\evil.example", "runs", "/a\n/b"):
        answer = web.client.post("/login", params={"next": target}, data={"password": PASSWORD})
        assert answer.headers["location"] == "/runs", target
    inside = web.client.post("/login", params={"next": "/runs/r_1"}, data={"password": PASSWORD})
    assert inside.headers["location"] == "/runs/r_1"


def test_every_answer_forbids_what_pages_do_not_need(web: WebService) -> None:
    for path in ("/healthz", "/runs", "/login", "/nowhere"):
        headers = web.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_the_pages_say_what_the_command_line_says(web: WebService) -> None:
    web.log_in()
    name = run_id(web)
    assert f'href="/runs/{name}"' in web.client.get("/runs?pipeline=flights").text
    assert "no run yet" in web.client.get("/runs?pipeline=other").text
    shown = web.client.get(f"/runs/{name[:8]}").text
    status = web.sluice.json("status")["run"]
    assert status["next"] in shown
    assert status["version"] in shown
    unknown = web.client.get("/runs/r_ffff")
    assert (unknown.status_code, "sluice runs list" in unknown.text) == (404, True)


def test_the_report_is_the_one_that_the_command_writes(web: WebService) -> None:
    web.log_in()
    page = web.client.get(f"/reports/{run_id(web)}")
    assert page.status_code == 200
    assert "wind_speed" in page.text
    assert "crew_email" not in page.text


def test_metrics_are_read_with_a_token(web: WebService) -> None:
    for token in ("x", PASSWORD):
        refused = web.client.get("/metrics", headers={"authorization": f"Bearer {token}"})
        assert refused.status_code == 401
    answer = web.client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert "sluice_stage_duration_seconds" in names
    assert web.client.get("/runs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 303


def test_a_link_in_an_alert_leads_through_the_login_to_the_report(
    web: WebService, browser: Browser
) -> None:
    page = browser.new_page()
    page.goto(f"{web.url}/reports/{run_id(web)}")
    assert page.locator("h1").inner_text() == "Sluice"
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/reports/*")
    assert "Published" in page.locator("h1").inner_text()
    page.goto(f"{web.url}/runs")
    page.locator("tbody a").first.click()
    assert "sluice" in page.locator("pre").inner_text()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login")
    page.close()
