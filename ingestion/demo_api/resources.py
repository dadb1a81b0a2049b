"""What the service serves: its resources, their columns in file order, and each column's kind."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

Value = str | int | float | bool | None
Record = dict[str, Value]


class Resource(StrEnum):
    """A collection of records with an address of its own, `/v1/<resource>`."""

    FLIGHTS = "flights"
    WEATHER = "weather"
    PLANES = "planes"
    AIRLINES = "airlines"
    AIRPORTS = "airports"

    @property
    def is_dated(self) -> bool:
        """True when it is served by local New York day, false for a snapshot."""
        return self in (Resource.FLIGHTS, Resource.WEATHER)

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of a served record's fields, in order."""
        names = tuple(COLUMNS[self])
        return (*names, CREW_EMAIL) if self is Resource.FLIGHTS else names


class Kind(StrEnum):
    """How a column's text becomes a JSON value."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"


CREW_EMAIL = "crew_email"

_LAYOUT = {
    Resource.FLIGHTS: (
        "year:integer month:integer day:integer dep_time:integer sched_dep_time:integer "
        "dep_delay:number arr_time:integer sched_arr_time:integer arr_delay:number carrier:text "
        "flight:integer tailnum:text origin:text dest:text air_time:number distance:integer "
        "hour:integer minute:integer time_hour:text"
    ),
    Resource.WEATHER: (
        "origin:text year:integer month:integer day:integer hour:integer temp:number dewp:number "
        "humid:number wind_dir:number wind_speed:number wind_gust:number precip:number "
        "pressure:number visib:number time_hour:text"
    ),
    Resource.PLANES: (
        "tailnum:text year:integer type:text manufacturer:text model:text engines:integer "
        "seats:integer speed:integer engine:text"
    ),
    Resource.AIRLINES: "carrier:text name:text",
    Resource.AIRPORTS: (
        "faa:text name:text lat:number lon:number alt:integer tz:integer dst:text tzone:text"
    ),
}


def _columns(layout: str) -> Mapping[str, Kind]:
    pairs = (column.split(":") for column in layout.split())
    return MappingProxyType({name: Kind(kind) for name, kind in pairs})


COLUMNS: Mapping[Resource, Mapping[str, Kind]] = MappingProxyType(
    {resource: _columns(layout) for resource, layout in _LAYOUT.items()}
)
