"""A suite that could not be evaluated says nothing about the data; this is what it does say."""

from expectations.verdict import EvaluationError
from orchestration.errors import FailureKind, SluiceError
from orchestration.failures.kinds import make_failure
from orchestration.failures.sqlstates import AUTHOR_ADVICE, Ruling, ruling

_SUITE = AUTHOR_ADVICE[FailureKind.CONFIGURATION]
_SUITE_WRONG = Ruling(FailureKind.CONFIGURATION, transient=False, advice=_SUITE)

# The words that expectations uses where there is no SQLSTATE.
WORDS: dict[str, Ruling] = {
    "connection": Ruling(
        FailureKind.DESTINATION,
        transient=True,
        advice="run the same command again once the warehouse answers",
    ),
    "missing_column": _SUITE_WRONG,
    "missing_parameter": _SUITE_WRONG,
    "evaluation": _SUITE_WRONG,
}
# Its sessions are read-only, so this is a suite that writes and no failover.
_OWN_MEANING = {"25006": _SUITE_WRONG}


def classify_evaluation(suite: str, error: EvaluationError) -> SluiceError:
    """The failure of a suite that ended in `error`: the suite's, or the warehouse's."""
    rule = WORDS.get(error.code) or _OWN_MEANING.get(error.code) or ruling(error.code)
    if error.code == "connection" and not error.transient:
        rule = ruling("28000")
    message = f"suite {suite} could not be evaluated ({error.code}): {error.message}"
    if rule.transient:
        # Nothing of the suite's own passes by itself.
        kind, code = FailureKind.DESTINATION, "gate_unavailable"
    elif rule.kind is None or rule is _SUITE_WRONG:
        kind, code = FailureKind.CONFIGURATION, "suite_error"
    else:
        kind, code = rule.kind, "gate_refused"
    return make_failure(
        kind, f"{message}; {rule.advice or _SUITE}", code=code, transient=rule.transient
    )
