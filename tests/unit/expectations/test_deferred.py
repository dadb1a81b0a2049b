import subprocess
import sys

LOADED = "from expectations.session import load_great_expectations\nload_great_expectations()\n"


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", f"import sys\n{program}"], check=True)


def test_what_hardly_any_expectation_needs_is_not_imported():
    run(f"{LOADED}assert not {{'scipy.stats._stats_py', 'altair.vegalite'}} & set(sys.modules)")


def test_what_was_put_off_is_there_when_it_is_asked_for():
    run(
        f"{LOADED}from great_expectations.expectations.core import "
        "expect_column_kl_divergence_to_be_less_than as it\n"
        "assert type(it.stats).__name__ == '_Deferred'\n"
        "assert round(float(it.stats.entropy([0.5, 0.5])), 3) == 0.693\n"
        "assert it.alt.Chart.__name__ == 'Chart'\n"
    )


def test_parts_of_what_was_put_off_can_be_imported():
    run(
        f"{LOADED}import scipy.stats.mstats\nimport altair.utils.data\n"
        "assert scipy.stats.mstats.mode and altair.utils.data and scipy.stats.norm.mean() == 0\n"
    )


def test_what_is_there_already_stays():
    run(
        f"import scipy.stats\nbefore = scipy.stats\n{LOADED}assert sys.modules['scipy.stats'] is before"
    )


def test_loading_in_the_background_gives_the_same_context():
    run(
        "from expectations.session import begin_loading, load_great_expectations\n"
        "begin_loading()\nfirst = load_great_expectations()\n"
        "assert first is load_great_expectations()"
    )
