"""The one place that turns any exception into a kind of failure: whose, transient or permanent.

Four tables decide: `sqlstates` (the database, whoever asked it), `logins` (a connection that was
refused before there was an SQLSTATE), `systems` (errno) and `libraries` (exceptions that carry
neither). What no table knows is permanent.
"""

from orchestration.failures.classify import classify
from orchestration.failures.database import classify_database
from orchestration.failures.evaluations import classify_evaluation
from orchestration.failures.sqlstates import Ruling, is_transient_sqlstate, ruling

__all__ = [
    "Ruling",
    "classify",
    "classify_database",
    "classify_evaluation",
    "is_transient_sqlstate",
    "ruling",
]
