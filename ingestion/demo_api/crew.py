"""Invents the one sensitive field of a flight. The same flight always gets the same address."""

from hashlib import blake2b

_FIRST_NAMES = (
    "ada alan amara boris carla chen dina emil fatima george hana igor ines jonas kofi lena "
    "marco mina nadia omar paula quentin rosa samir tara ugo vera wes xenia yusuf zoe aziz"
)
_LAST_NAMES = (
    "abbott baker castro dubois evans fischer garcia hassan ito jensen kowalski lopez meyer "
    "nguyen okafor patel quinn rossi silva tanaka ueda vargas weber xu young zhang adler "
    "brandt cole diaz erikson ford"
)
_FIRST, _LAST = _FIRST_NAMES.split(), _LAST_NAMES.split()


def invent_crew_email(
    year: object, month: object, day: object, carrier: object, flight: object, origin: object
) -> str:
    """Return `first.last.<4 hex>@crew.example` for the flight with this natural key."""
    key = f"{year}-{month}-{day}|{carrier}|{flight}|{origin}".encode()
    digest = blake2b(key, digest_size=4).digest()
    first, last = _FIRST[digest[0] % len(_FIRST)], _LAST[digest[1] % len(_LAST)]
    return f"{first}.{last}.{digest[2:].hex()}@crew.example"
