"""What an analyst has: a checkout under version control, two published days, and an edit to make."""

import shutil
import subprocess
from pathlib import Path

from harness import CHECKOUT, Sluice

DAYS = "2013-01-05..2013-01-06"
MODELS = Path("dbt_project/models/marts/flights")
OLD = "        departure_delay_minutes,\n        arrival_delay_minutes,\n"
NEW = """        departure_delay_minutes,
        case
            when carrier_code = 'UA' then arrival_delay_minutes + 1
            else arrival_delay_minutes
        end as arrival_delay_minutes,
        coalesce(departure_delay_minutes > 60, false) as is_very_late,
"""
OLD_COLUMN = "      - name: air_time_minutes\n        data_type: integer\n"
NEW_COLUMN = f"""      - name: is_very_late
        data_type: boolean
        description: Whether it left more than an hour late.
{OLD_COLUMN}"""
# What an analyst would say by hand that the edit does.
DELAYED = (
    "select count(*) from analytics.fct_flights "
    "where carrier_code = 'UA' and arrival_delay_minutes is not null"
)


def check_out(sluice: Sluice, folder: Path) -> Path:
    """A copy of the project as a fresh clone, everything committed."""
    project = sluice.copy_project(folder).project
    shutil.copy(CHECKOUT / ".gitignore", project)
    git(project, "init", "--quiet")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "published")
    return project


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def change_the_delays(sluice: Sluice) -> None:
    edit(sluice.project / MODELS / "fct_flights.sql", OLD, NEW)
    edit(sluice.project / MODELS / "_flights__models.yml", OLD_COLUMN, NEW_COLUMN)
