"""Whether a message comes from its sender: Standard Webhooks, with as many secrets as a rotation needs.

SLUICE_WEBHOOK_SECRETS_<SOURCE> holds the secrets of a source, apart by spaces; each is good until it
is taken out.
"""

import binascii
from collections.abc import Iterable, Mapping

from standardwebhooks import Webhook, WebhookVerificationError
from standardwebhooks.webhooks import EmptyWebhookSecretError

from orchestration.errors import ConfigurationError

_PREFIX = "SLUICE_WEBHOOK_SECRETS_"
# 24 bytes are the least that the standard asks for; as base64 they are 32 characters.
_SHORTEST = len("whsec_") + 32

Verifiers = Mapping[str, tuple[Webhook, ...]]


def variable(source: str) -> str:
    return _PREFIX + source.upper()


def read_secrets(sources: Iterable[str], environ: Mapping[str, str]) -> Verifiers:
    """Source → its verifiers. Raises `ConfigurationError` with all that is missing or unusable."""
    found, wrong = {}, []
    for source in sorted(set(sources)):
        secrets = environ.get(variable(source), "").split()
        if not secrets:
            wrong.append(f"{variable(source)} is not set")
        if any(len(secret) < _SHORTEST for secret in secrets):
            wrong.append(f"{variable(source)} has a secret of less than 24 bytes")
        try:
            found[source] = tuple(map(Webhook, secrets))
        except (binascii.Error, EmptyWebhookSecretError):
            wrong.append(f"{variable(source)} has a secret that is not whsec_ and base64")
    if wrong:
        raise ConfigurationError(
            f"{'; '.join(wrong)}; see .env.example for how to make one", code="webhook_secret"
        )
    return found


def is_genuine(body: bytes, headers: Mapping[str, str], verifiers: Iterable[Webhook]) -> bool:
    """Whether one of the secrets signed exactly this, within five minutes of now."""
    return any(_verify(verifier, body, headers) for verifier in verifiers)


def _verify(verifier: Webhook, body: bytes, headers: Mapping[str, str]) -> bool:
    try:
        verifier.verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):
        # The library splits and decodes what a stranger sent without looking first.
        return False
    return True
