import json
import threading
import time
from datetime import UTC, datetime

import psycopg
import pytest

from expectations.__main__ import main
from expectations.check import check_suite
from expectations.gate import evaluate_many, evaluate_suite
from expectations.subject import (
    PARTITION,
    Subject,
    artifact_rows_query,
    day_before_query,
)
from expectations.verdict import Severity, Verdict, VerdictStatus
from expectations.volume import Usual, partition_volume_query

SECRET = "jane.doe@example.org"
BETWEEN = "expect_column_values_to_be_between"
UNIQUE = "expect_column_values_to_be_unique"
NOT_NULL = "expect_column_values_to_not_be_null"
SQL = "unexpected_rows_expectation"


@pytest.fixture
def readings(connection: psycopg.Connection) -> psycopg.Connection:
    """Twelve rows of three partitions, each in an artifact of its own; p/3 holds all the dirt."""
    connection.execute("""
        create table demo.readings (key bigint, speed double precision, name text,
          seen_at timestamptz, _artifact_id text, _partition text);
        insert into demo.readings
          select n, n * 10.0, 'n' || n, timestamptz '2013-01-01 00:00+00' + n * interval '1 hour',
            'a' || (n % 3 + 1), 'p/' || (n % 3 + 1) || '@1'
          from generate_series(1, 12) as n
    """)
    return connection


def spoil(readings: psycopg.Connection) -> None:
    readings.execute(
        "insert into demo.readings values (2, 1048, %s, '2013-01-01 03:00+00', 'a3', 'p/3@1')",
        [SECRET],
    )


def test_good_data_passes_and_observed_aggregates_are_kept(readings, database, suite_of):
    suite = suite_of(
        f"{BETWEEN} | critical | {{column: speed, min_value: 0, max_value: 250}}",
        f"{UNIQUE} | critical | {{column: key}}",
        "expect_column_max_to_be_between | warning"
        " | {column: seen_at, min_value: {$PARAMETER: 'as_of - timedelta(hours=48)'}}",
        "expect_table_row_count_to_equal | critical | {value: {$PARAMETER: input_rows_demo__r}}",
        "expect_column_values_to_be_in_type_list | critical"
        " | {column: seen_at, type_list: [TIMESTAMP WITH TIME ZONE]}",
    )
    parameters = {"as_of": datetime(2013, 1, 2, tzinfo=UTC), "input_rows_demo__r": 12}
    verdict = evaluate_suite(
        suite, database.url, schema="demo", table="readings", parameters=parameters
    )
    assert verdict.status is VerdictStatus.PASSED, verdict
    assert [result.observed for result in verdict.results] == [
        None,
        None,
        "2013-01-01T12:00:00+00:00",
        12,
        "TIMESTAMP WITH TIME ZONE",
    ]
    assert verdict.results[2].bounds == {"min_value": "2012-12-31T00:00:00+00:00"}
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict


@pytest.mark.parametrize(
    ("severity", "status"),
    [
        ("info", VerdictStatus.PASSED),
        ("warning", VerdictStatus.WARNED),
        ("critical", VerdictStatus.FAILED),
    ],
)
def test_severity_decides_what_a_failure_means(readings, database, suite_of, severity, status):
    suite = suite_of(f"{BETWEEN} | {severity} | {{column: speed, max_value: 50}}")
    verdict = evaluate_suite(suite, database.url, schema="demo", table="readings")
    assert verdict.status is status
    assert verdict.results[0].unexpected_count == 7
    assert verdict.results[0].element_count == 12


def test_each_kind_of_row_level_failure_names_its_partitions(readings, database, suite_of):
    spoil(readings)
    suite = suite_of(
        f"{BETWEEN} | critical | {{column: speed, max_value: 250}}",
        f"{UNIQUE} | critical | {{column: key}}",
        "expect_compound_columns_to_be_unique | critical | {column_list: [key, _artifact_id]}",
        "expect_column_values_to_match_regex | critical | {column: name, regex: '^n[0-9]+$'}",
        f"{SQL} | critical | {{unexpected_rows_query: 'select _partition from {{batch}}"
        " group by _partition having count(*) > 4'} | columns: [_partition]",
        f"{SQL} | critical | {{unexpected_rows_query: 'select key from {{batch}}"
        " where speed > 250'} | columns: [key, speed]",
        "expect_column_mean_to_be_between | critical | {column: speed, max_value: 70}",
        f"{BETWEEN} | warning | {{column: speed, max_value: 110}}",
    )
    query = artifact_rows_query("demo", "readings", ["a1", "a2", "a3"])
    verdict = evaluate_suite(
        suite,
        database.url,
        schema="demo",
        table="readings",
        query=query,
        partition_column=PARTITION,
    )
    assert verdict.status is VerdictStatus.FAILED
    assert [result.partitions for result in verdict.results] == [
        {"p/3@1": 1},
        {"p/3@1": 2},
        {"p/3@1": 2},
        {"p/3@1": 1},
        {"p/3@1": 1},
        None,
        None,
        {"p/1@1": 1, "p/3@1": 1},
    ]
    assert set(verdict.failed_partitions()) == {"p/3@1"}
    assert len(verdict.unattributed()) == 2
    assert set(verdict.failed_partitions(Severity.WARNING)) == {"p/1@1", "p/3@1"}


def test_rows_of_other_artifacts_are_not_judged(readings, database, suite_of):
    spoil(readings)
    suite = suite_of(f"{BETWEEN} | critical | {{column: speed, max_value: 250}}")
    query = artifact_rows_query("demo", "readings", ["a1", "a2"])
    verdict = evaluate_suite(suite, database.url, schema="demo", query=query)
    assert verdict.status is VerdictStatus.PASSED
    assert verdict.results[0].element_count == 8


def test_a_partition_without_rows_fails_its_volume(readings, database, suite_of):
    suite = suite_of(f"{BETWEEN} | critical | {{column: row_count, min_value: 3}}")
    artifacts = {"a1": "p/1@1", "a2": "p/2@1", "a3": "p/3@1", "a4": "p/4@1"}
    query = partition_volume_query("demo", "readings", artifacts)
    verdict = evaluate_suite(
        suite, database.url, schema="demo", query=query, partition_column=PARTITION
    )
    assert set(verdict.failed_partitions()) == {"p/4@1"}


def test_no_value_of_a_row_leaves_the_database(readings, database, suite_of, caplog, capfd):
    spoil(readings)
    suite = suite_of(
        f"{UNIQUE} | critical | {{column: key}}",
        "expect_column_values_to_match_regex | critical | {column: name, regex: '^n[0-9]+$'}",
        "expect_column_distinct_values_to_be_in_set | critical | {column: name, value_set: [n1]}",
        "expect_column_max_to_be_between | critical | {column: name, max_value: 2013-01-01}",
        f"{SQL} | critical | {{unexpected_rows_query: 'select * from {{batch}} where key = 2'}}"
        " | columns: [key]",
        f"{SQL} | critical | {{unexpected_rows_query: 'select * from {{batch}}"
        " where name::int > 1'} | columns: [name]",
    )
    verdict = evaluate_suite(
        suite, database.url, schema="demo", table="readings", partition_column=PARTITION
    )
    told = json.dumps(verdict.to_dict()) + caplog.text + "".join(capfd.readouterr())
    assert SECRET not in told
    assert "n12" not in told
    assert verdict.error is not None
    assert verdict.error.code == "22P02"
    assert caplog.text == ""


def test_a_missing_relation_is_a_permanent_error(connection, database, suite_of):
    suite = suite_of(f"{UNIQUE} | critical | {{column: key}}")
    verdict = evaluate_suite(suite, database.url, schema="demo", table="absent")
    assert verdict.status is VerdictStatus.ERROR
    assert verdict.error is not None
    assert (verdict.error.code, verdict.transient) == ("42P01", False)
    assert "demo.absent" in verdict.error.message


def test_a_missing_column_is_an_error_and_the_rest_is_still_judged(readings, database, suite_of):
    suite = suite_of(
        f"{UNIQUE} | critical | {{column: absent}}",
        f"{UNIQUE} | critical | {{column: key}}",
        "expect_column_to_exist | critical | {column: absent}",
    )
    verdict = evaluate_suite(suite, database.url, schema="demo", table="readings")
    assert verdict.status is VerdictStatus.ERROR
    assert [result.success for result in verdict.results] == [False, True, False]
    assert [bool(result.error) for result in verdict.results] == [True, False, False]
    assert not verdict.transient


def test_a_parameter_without_value_is_an_error(readings, database, suite_of):
    suite = suite_of("expect_table_row_count_to_equal | info | {value: {$PARAMETER: as_of}}")
    verdict = evaluate_suite(suite, database.url, schema="demo", table="readings")
    assert verdict.error is not None
    assert verdict.error.code == "missing_parameter"


def test_no_server_is_a_transient_error_and_tells_no_password(suite_of, tmp_path):
    suite = suite_of(f"{UNIQUE} | critical | {{column: key}}")
    url = f"postgresql://someone:pa$sw0rd@/db?host={tmp_path}"
    verdict = evaluate_suite(suite, url, schema="demo", table="readings")
    assert verdict.status is VerdictStatus.ERROR
    assert verdict.transient
    assert "sw0rd" not in json.dumps(verdict.to_dict())


@pytest.mark.parametrize("url", ["postgresql:///db", "no url at all"])
def test_a_malformed_url_is_a_permanent_error(suite_of, url):
    suite = suite_of(f"{UNIQUE} | critical | {{column: key}}")
    verdict = evaluate_suite(suite, url, schema="demo", table="readings")
    assert verdict.error is not None
    assert (verdict.error.code, verdict.transient) == ("connection", False)


def kill_gates(url: str, stop: threading.Event, times: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        while not stop.is_set() and times:
            killed = connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'sluice-gate' and state = 'active'"
                " and query ilike '%slow%' and query not ilike '%limit%'"
            ).fetchall()
            times -= len(killed)
            time.sleep(0.02)


@pytest.mark.parametrize("times", [1, 1000])
def test_a_killed_backend_never_reads_as_bad_data(connection, database, suite_of, times):
    connection.execute(
        "create view demo.slow as select n as key, pg_sleep(0.02)::text as nothing"
        " from generate_series(1, 10) as n"
    )
    suite = suite_of(
        f"{NOT_NULL} | critical | {{column: nothing}}",
        f"{BETWEEN} | critical | {{column: key, max_value: 100}}",
        f"{UNIQUE} | critical | {{column: key}}",
    )
    stop = threading.Event()
    killer = threading.Thread(target=kill_gates, args=(database.url, stop, times))
    killer.start()
    try:
        verdict = evaluate_suite(suite, database.url, schema="demo", table="slow")
    finally:
        stop.set()
        killer.join()
    assert verdict.statistics["failed_critical"] == 0, verdict
    assert verdict.status in {VerdictStatus.PASSED, VerdictStatus.ERROR}
    if times == 1000:
        assert verdict.status is VerdictStatus.ERROR
    assert verdict.transient is (verdict.status is VerdictStatus.ERROR)


def test_a_statement_that_takes_too_long_is_a_transient_error(connection, database, suite_of):
    connection.execute("create view demo.slow as select pg_sleep(2)::text as nothing")
    suite = suite_of(f"{NOT_NULL} | critical | {{column: nothing}}")
    verdict = evaluate_suite(
        suite, database.url, schema="demo", table="slow", statement_timeout_s=0.2
    )
    assert verdict.error is not None
    assert (verdict.error.code, verdict.transient) == ("57014", True)


def test_a_role_that_may_only_read_can_run_every_kind(readings, database, suite_of):
    readings.execute("""
        do $$ begin create role demo_gate login; exception when duplicate_object then end $$;
        alter role demo_gate set default_transaction_read_only = on;
        revoke temporary on database postgres from public;
        grant usage on schema demo to demo_gate;
        grant select on all tables in schema demo to demo_gate
    """)
    spoil(readings)
    suite = suite_of(
        f"{BETWEEN} | critical | {{column: speed, max_value: 250}}",
        f"{UNIQUE} | critical | {{column: key}}",
        "expect_compound_columns_to_be_unique | critical | {column_list: [key, name]}",
        f"{SQL} | critical | {{unexpected_rows_query: 'select _partition from {{batch}}"
        " where speed > (select 250 from readings limit 1)'} | columns: [speed]",
    )
    url = database.url.replace("postgres:@", "demo_gate:@")
    verdict = evaluate_suite(
        suite, url, schema="demo", table="readings", partition_column=PARTITION
    )
    assert verdict.error is None
    assert [result.success for result in verdict.results] == [False, False, True, False]
    readings.execute("revoke select on all tables in schema demo from demo_gate")
    refused = evaluate_suite(suite, url, schema="demo", table="readings")
    assert refused.error is not None
    assert (refused.error.code, refused.transient) == ("42501", False)


def test_even_the_owner_cannot_write_through_a_gate(readings, database, suite_of):
    readings.execute(
        "create function demo.write() returns int language sql as"
        " $$ insert into demo.readings (key) values (0) returning 1 $$"
    )
    suite = suite_of(
        f"{SQL} | info | {{unexpected_rows_query: 'select demo.write() from {{batch}}'}}"
        " | columns: [key]"
    )
    verdict = evaluate_suite(suite, database.url, schema="demo", table="readings")
    assert verdict.error is not None
    assert verdict.error.code == "25006"


def test_session_settings_reach_the_views(connection, database, suite_of):
    connection.execute(
        "create view demo.chosen as select current_setting('sluice.manifest') as manifest"
    )
    suite = suite_of(
        "expect_column_values_to_be_in_set | critical | {column: manifest, value_set: [m 1]}"
    )
    verdict = evaluate_suite(
        suite, database.url, schema="demo", table="chosen", settings={"sluice.manifest": "m 1"}
    )
    assert verdict.status is VerdictStatus.PASSED, verdict


def test_many_subjects_are_judged_in_order_and_one_error_spoils_no_other(
    readings, database, suite_of
):
    suite = suite_of(f"{UNIQUE} | critical | {{column: key}}")
    subjects = [Subject(suite, "demo", name) for name in ("readings", "absent", "readings")]
    verdicts = evaluate_many(subjects, database.url)
    assert [verdict.status for verdict in verdicts] == ["passed", "error", "passed"]
    left = readings.execute(
        "select count(*) from pg_stat_activity where application_name = 'sluice-gate'"
    ).fetchone()
    assert left == (0,)


def test_types_and_arguments_are_checked_with_line_numbers(suite_of):
    suite = suite_of(
        "expect_column_values_to_be_nice | critical | {column: key}",
        f"{BETWEEN} | critical | {{column: key, maximum: 3}}",
        f"{BETWEEN} | critical | {{min_value: 3}}",
        f"{BETWEEN} | critical | {{column: key, max_value: {{$PARAMETER: as_of}}}}",
    )
    found = [(problem.line, problem.message) for problem in check_suite(suite)]
    assert [line for line, _ in found] == [4, 9, 13]
    assert "knows no" in found[0][1]
    assert "takes no `maximum`" in found[1][1]
    assert "column" in found[2][1]


def test_a_suite_runs_alone_from_the_command_line(readings, database, suite_of, capsys):
    path = str(suite_of(f"{UNIQUE} | critical | {{column: key}}").path)
    where = ["--url", database.url, "--schema", "demo", "--table"]
    assert main([path, *where, "readings", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "passed"
    assert main([path, *where, "absent"]) == 78
    spoil(readings)
    assert main([path, *where, "readings"]) == 10
    assert "Because." in capsys.readouterr().out


def test_history_refuses_what_constants_allow_and_nothing_where_there_is_none(
    readings, database, suite_of
):
    suite = suite_of(
        f"{BETWEEN} | critical | {{column: row_count, min_value: 3}}",
        f"{BETWEEN} | critical | {{column: share_of_usual, min_value: 0.6}}",
        f"{BETWEEN} | warning | {{column: hours_later_than_usual, max_value: 24}}",
    )
    artifacts = {"a1": "p/1@1", "a2": "p/2@1", "a3": "p/3@1"}
    usual = {"a1": Usual(8, 30), "a2": Usual(4, -100)}
    verdict = evaluate_suite(
        suite,
        database.url,
        schema="demo",
        query=partition_volume_query("demo", "readings", artifacts, usual),
        partition_column=PARTITION,
    )
    assert [result.partitions for result in verdict.results] == [None, {"p/1@1": 1}, {"p/1@1": 1}]
    assert set(verdict.failed_partitions()) == {"p/1@1"}


def test_rows_are_compared_with_those_of_the_day_before(readings, database, suite_of):
    suite = suite_of(
        f"{SQL} | critical | {{unexpected_rows_query: 'select d._partition from {{batch}} as d"
        " join day_before as y on y._next_partition = d._partition and y.key = d.key - 1'}"
        " | columns: [key], reads: [day_before]"
    )
    verdict = evaluate_many(
        [
            Subject(
                suite,
                "demo",
                query=artifact_rows_query("demo", "readings", ["a1", "a2", "a3"]),
                partition_column=PARTITION,
                neighbours={"day_before": day_before_query("demo", "readings", pairs)},
            )
            for pairs in ({"a1": "p/2@1", "a2": "p/3@1"}, {})
        ],
        database.url,
    )
    assert [each.results[0].partitions for each in verdict] == [{"p/2@1": 3, "p/3@1": 4}, None]


def test_failing_rows_are_named_by_key_and_sensitive_values_never(readings, database, suite_of):
    spoil(readings)
    suite = suite_of(
        f"{BETWEEN} | critical | {{column: speed, max_value: 5}}",
        "expect_column_values_to_match_regex | critical | {column: name, regex: '^n[0-9]+$'}",
        f"{UNIQUE} | critical | {{column: key}}",
        f"{SQL} | critical | {{unexpected_rows_query: 'select seen_at from {{batch}}"
        " where speed > 250'} | columns: [speed]",
        f"{SQL} | critical | {{unexpected_rows_query: 'select name as key from {{batch}}"
        " where speed > 250'} | columns: [name]",
        f"{SQL} | critical | {{unexpected_rows_query: 'select speed from {{batch}}"
        " where speed > 250'} | columns: [speed]",
        "expect_column_mean_to_be_between | critical | {column: speed, max_value: 7}",
        f"{BETWEEN} | critical | {{column: key, max_value: 900}}",
    )
    [verdict] = evaluate_many(
        [
            Subject(
                suite,
                "demo",
                "readings",
                row_key=("key", "seen_at", "name"),
                sensitive=frozenset({"name"}),
            )
        ],
        database.url,
    )
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    assert SECRET not in json.dumps(verdict.to_dict())
    fast, named, shared, moment, *nothing = [result.examples for result in verdict.results]
    assert len(fast) == 5
    assert fast[0] == "key=1, seen_at=2013-01-01T01:00:00+00:00"
    assert len(named) == 1
    assert named[0].startswith("key=")
    assert len(shared) == 2
    assert moment[0].startswith("seen_at=2013-01-01")
    assert nothing == [(), (), (), ()]
