"""The contract of hourly weather at the airports of departure, by local New York day."""

from datetime import datetime
from typing import Annotated, Literal

from typing_extensions import TypedDict

from ingestion.contracts import Contract, Day
from ingestion.fields import About


class Weather(TypedDict):
    """One hour at one airport. What was not measured is null."""

    origin: Annotated[Literal["EWR", "JFK", "LGA"], About(doc="Airport of the observation.")]
    year: Annotated[int, About(doc="Local year.", at_least=1900, at_most=2200)]
    month: Annotated[int, About(doc="Local month.", at_least=1, at_most=12)]
    day: Annotated[int, About(doc="Local day.", at_least=1, at_most=31)]
    hour: Annotated[
        int,
        About(doc="Local hour; occurs twice when the clocks are set back.", at_least=0, at_most=23),
    ]
    temp: Annotated[float | None, About(doc="Temperature.", unit="°F", at_least=-80, at_most=140)]
    dewp: Annotated[float | None, About(doc="Dew point.", unit="°F", at_least=-100, at_most=110)]
    humid: Annotated[
        float | None, About(doc="Relative humidity.", unit="percent", at_least=0, at_most=100)
    ]
    wind_dir: Annotated[
        float | None, About(doc="Wind direction.", unit="degrees", at_least=0, at_most=360)
    ]
    wind_speed: Annotated[
        float | None, About(doc="Wind speed.", unit="mph", at_least=0, at_most=250)
    ]
    wind_gust: Annotated[
        float | None, About(doc="Speed of gusts.", unit="mph", at_least=0, at_most=300)
    ]
    precip: Annotated[
        float | None, About(doc="Precipitation.", unit="inches", at_least=0, at_most=20)
    ]
    pressure: Annotated[
        float | None,
        About(doc="Pressure at sea level.", unit="millibars", at_least=850, at_most=1100),
    ]
    visib: Annotated[float | None, About(doc="Visibility.", unit="miles", at_least=0, at_most=100)]
    time_hour: Annotated[datetime, About(doc="The hour of the observation, an instant.")]


CONTRACT = Contract(
    name="flights.weather",
    version="1",
    supported_versions=("1",),
    record=Weather,
    key=("origin", "time_hour"),
    day=Day(("year", "month", "day")),
)
