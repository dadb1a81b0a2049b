"""The contract of scheduled flights: one record per departure, by local New York day."""

from datetime import datetime
from typing import Annotated, Literal

from typing_extensions import TypedDict

from ingestion.contracts import Contract, Day
from ingestion.fields import About, Pseudonym


class Flight(TypedDict):
    """One scheduled flight. A flight that never left has no departure, arrival or air time."""

    year: Annotated[int, About(doc="Local year of departure.", at_least=1900, at_most=2200)]
    month: Annotated[int, About(doc="Local month of departure.", at_least=1, at_most=12)]
    day: Annotated[int, About(doc="Local day of departure.", at_least=1, at_most=31)]
    dep_time: Annotated[
        int | None,
        About(
            doc="Local clock of departure; null: never left.", unit="hhmm", at_least=1, at_most=2400
        ),
    ]
    sched_dep_time: Annotated[
        int,
        About(doc="Local clock of the scheduled departure.", unit="hhmm", at_least=0, at_most=2400),
    ]
    dep_delay: Annotated[
        float | None,
        About(
            doc="Late departure; early is negative.", unit="minutes", at_least=-720, at_most=2880
        ),
    ]
    arr_time: Annotated[
        int | None,
        About(doc="Clock of arrival at the destination.", unit="hhmm", at_least=1, at_most=2400),
    ]
    sched_arr_time: Annotated[
        int,
        About(doc="Clock of the scheduled arrival.", unit="hhmm", at_least=0, at_most=2400),
    ]
    arr_delay: Annotated[
        float | None,
        About(doc="Late arrival; early is negative.", unit="minutes", at_least=-720, at_most=2880),
    ]
    carrier: Annotated[str, About(doc="Carrier code.", length=(2, 2))]
    flight: Annotated[int, About(doc="Flight number.", at_least=1, at_most=99_999)]
    tailnum: Annotated[str | None, About(doc="Registration of the plane.", length=(1, 10))]
    origin: Annotated[Literal["EWR", "JFK", "LGA"], About(doc="Airport of departure.")]
    dest: Annotated[str, About(doc="FAA code of the destination.", length=(3, 3))]
    air_time: Annotated[
        float | None, About(doc="Time in the air.", unit="minutes", at_least=0, at_most=2880)
    ]
    distance: Annotated[
        int, About(doc="Distance between the airports.", unit="miles", at_least=1, at_most=15_000)
    ]
    hour: Annotated[
        int, About(doc="Hour of the scheduled departure.", unit="hours", at_least=0, at_most=24)
    ]
    minute: Annotated[
        int, About(doc="Minute of the scheduled departure.", unit="minutes", at_least=0, at_most=59)
    ]
    time_hour: Annotated[datetime, About(doc="The hour of the scheduled departure, an instant.")]
    crew_email: Annotated[
        str, About(doc="Address of the crew's lead.", sensitive=Pseudonym(into="crew_pseudonym"))
    ]


CONTRACT = Contract(
    name="flights.flights",
    version="1",
    supported_versions=("1",),
    record=Flight,
    key=("year", "month", "day", "carrier", "flight", "origin"),
    day=Day(("year", "month", "day")),
)
