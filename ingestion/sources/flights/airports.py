"""The contract of airports, fetched whole."""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from ingestion.contracts import Contract
from ingestion.fields import About


class Airport(TypedDict):
    """One airport. Not every destination of a flight is among them."""

    faa: Annotated[str, About(doc="FAA code.", length=(3, 4))]
    name: Annotated[str, About(doc="Usual name.", length=(1, 200))]
    lat: Annotated[float, About(doc="Latitude, north.", unit="degrees", at_least=-90, at_most=90)]
    lon: Annotated[float, About(doc="Longitude, east.", unit="degrees", at_least=-180, at_most=180)]
    alt: Annotated[int, About(doc="Altitude.", unit="feet", at_least=-2000, at_most=30_000)]
    tz: Annotated[
        int,
        About(doc="Standard local time less UTC.", unit="hours", at_least=-12, at_most=14),
    ]
    dst: Annotated[
        Literal["A", "E", "N", "O", "S", "U", "Z"],
        About(doc="Rule of daylight saving: A standard US, N none, U unknown, else elsewhere's."),
    ]
    tzone: Annotated[str | None, About(doc="IANA time zone; null: unknown.", length=(1, 64))]


CONTRACT = Contract(
    name="flights.airports",
    version="1",
    supported_versions=("1",),
    record=Airport,
    key=("faa",),
)
