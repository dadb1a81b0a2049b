"""The contract of carriers, fetched whole."""

from typing import Annotated

from typing_extensions import TypedDict

from ingestion.contracts import Contract
from ingestion.fields import About


class Airline(TypedDict):
    """One carrier."""

    carrier: Annotated[str, About(doc="Carrier code.", length=(2, 2))]
    name: Annotated[str, About(doc="Full name of the carrier.", length=(1, 200))]


CONTRACT = Contract(
    name="flights.airlines",
    version="1",
    supported_versions=("1",),
    record=Airline,
    key=("carrier",),
)
