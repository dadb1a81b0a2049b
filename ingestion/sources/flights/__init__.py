"""Flights out of New York City with their weather, planes, airlines and airports."""

from ingestion.resources import Resource, Source
from ingestion.sources.flights import airlines, airports, flights, planes, weather

SOURCE = Source(
    name="flights",
    description="Flights out of New York City: schedule, outcome, weather, planes and carriers.",
    resources=(
        Resource(contract=flights.CONTRACT, path="/v1/flights"),
        Resource(contract=weather.CONTRACT, path="/v1/weather"),
        Resource(contract=planes.CONTRACT, path="/v1/planes"),
        Resource(contract=airlines.CONTRACT, path="/v1/airlines"),
        Resource(contract=airports.CONTRACT, path="/v1/airports"),
    ),
)
