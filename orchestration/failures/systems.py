"""What an error of the operating system means, by errno; unknown ones are permanent.

These are errors of this machine: its disk, its files, its network. Paths and addresses are not
told.
"""

import errno
import socket
import ssl
from dataclasses import dataclass

from orchestration.errors import FailureKind, SluiceError
from orchestration.failures.kinds import make_failure


@dataclass(frozen=True, slots=True)
class SystemRuling:
    """The verdict on some errnos."""

    kind: FailureKind
    transient: bool
    code: str
    advice: str


_DISK = SystemRuling(
    FailureKind.DESTINATION,
    transient=False,
    code="disk_full",
    advice="free space below SLUICE_HOME (the quota counts too), then run the same command again",
)
_RIGHTS = SystemRuling(
    FailureKind.CONFIGURATION,
    transient=False,
    code="permission_denied",
    advice="let the user who runs Sluice write below SLUICE_HOME and read the project, then run "
    "the same command again",
)
_FILES = SystemRuling(
    FailureKind.DESTINATION,
    transient=True,
    code="too_many_files",
    advice="run the same command again with fewer at once, or raise the limit of open files "
    "(ulimit -n)",
)
_NETWORK = SystemRuling(
    FailureKind.DESTINATION,
    transient=True,
    code="connection_lost",
    advice="run the same command again once the other side answers",
)
_RESOURCES = SystemRuling(
    FailureKind.DESTINATION,
    transient=True,
    code="system_busy",
    advice="run the same command again, with fewer at once if it goes on",
)
_NAMES = SystemRuling(
    FailureKind.DESTINATION,
    transient=True,
    code="name_not_resolved",
    advice="correct the host's name in the address, or run the same command again once it resolves",
)
_HARDWARE = SystemRuling(
    FailureKind.DESTINATION,
    transient=False,
    code="disk_failed",
    advice="look at the disk and the machine's log before running the same command again",
)
_UNTRUSTED = SystemRuling(
    FailureKind.CONFIGURATION,
    transient=False,
    code="tls_untrusted",
    advice="make this machine trust the authority (SSL_CERT_FILE), or correct the address",
)
_UNKNOWN = SystemRuling(
    FailureKind.INTERNAL,
    transient=False,
    code="os_error",
    advice="the log names the place; report it, and run the same command again once it is "
    "understood",
)

TABLE: dict[int, SystemRuling] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _DISK),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), _FILES),
    **dict.fromkeys(
        (
            *(errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EPIPE),
            *(errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN),
            *(errno.ENETRESET, errno.EHOSTDOWN, errno.ENOTCONN),
        ),
        _NETWORK,
    ),
    **dict.fromkeys((errno.EINTR, errno.EAGAIN, errno.ENOMEM, errno.EBUSY), _RESOURCES),
    errno.EIO: _HARDWARE,
}


def system_ruling(error: OSError) -> SystemRuling:
    """The entry of its errno; TLS and names have numbers of their own and go by class."""
    match error:
        case ssl.SSLCertVerificationError():
            return _UNTRUSTED
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return _NETWORK
        case ssl.SSLError():
            return _UNKNOWN
        case socket.gaierror():
            return _NAMES
        case TimeoutError() if error.errno is None:
            return _NETWORK
        case _:
            return TABLE.get(error.errno or 0, _UNKNOWN)


def classify_system(error: OSError) -> SluiceError:
    """The failure that an OSError is; its message never holds the path."""
    found = system_ruling(error)
    what = error.strerror if error.errno in errno.errorcode else None
    message = f"the operating system refused ({what or type(error).__name__}); {found.advice}"
    return make_failure(found.kind, message, code=found.code, transient=found.transient)
