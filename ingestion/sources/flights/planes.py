"""The contract of registered planes, fetched whole."""

from typing import Annotated

from typing_extensions import TypedDict

from ingestion.contracts import Contract
from ingestion.fields import About


class Plane(TypedDict):
    """One registered plane. The register knows few cruising speeds and not every year."""

    tailnum: Annotated[str, About(doc="Registration.", length=(1, 10))]
    year: Annotated[int | None, About(doc="Year of manufacture.", at_least=1900, at_most=2200)]
    type: Annotated[str, About(doc="Kind of aircraft.", length=(1, 100))]
    manufacturer: Annotated[str, About(doc="Manufacturer as registered.", length=(1, 200))]
    model: Annotated[str, About(doc="The manufacturer's model.", length=(1, 100))]
    engines: Annotated[int, About(doc="Number of engines.", at_least=0, at_most=12)]
    seats: Annotated[int, About(doc="Number of seats.", at_least=0, at_most=1000)]
    speed: Annotated[int | None, About(doc="Cruising speed.", unit="mph", at_least=0, at_most=2000)]
    engine: Annotated[str, About(doc="Kind of engine.", length=(1, 100))]


CONTRACT = Contract(
    name="flights.planes",
    version="1",
    supported_versions=("1",),
    record=Plane,
    key=("tailnum",),
)
