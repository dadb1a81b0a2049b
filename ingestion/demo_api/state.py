"""Holds the faults and corrections in force, and keeps them in a file when one is given.

Without a file they live as long as the process. A file is replaced whole, so a kill leaves the old
state or the new one; a file that cannot be read is refused, never overwritten.
"""

import os
from pathlib import Path
from threading import Lock

from pydantic import BaseModel, ConfigDict, ValidationError

from ingestion.demo_api.corrections import Correction, CorrectionRefusedError, Corrections, Effect
from ingestion.demo_api.faults import ActiveFault, FaultBoard


class StateUnreadableError(RuntimeError):
    """The state file exists but does not hold a state. Permanent."""


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid")

    faults: list[ActiveFault]
    corrections: list[Correction]


class ServiceState:
    """Faults and corrections of one service.

    Raises StateUnreadableError when the state file cannot be taken over.
    """

    def __init__(self, state_file: Path | None = None) -> None:
        self._file = state_file
        self._lock = Lock()
        self.corrections = Corrections()
        self.faults = FaultBoard(on_change=self._save)
        if state_file is not None and state_file.exists():
            self._load(state_file)

    def correct(self, correction: Correction) -> Effect:
        """Put a correction into force. Raises CorrectionRefusedError."""
        effect = self.corrections.apply(correction)
        self._save()
        return effect

    def clear_corrections(self) -> None:
        """Restore the original content everywhere."""
        self.corrections.clear()
        self._save()

    def _load(self, state_file: Path) -> None:
        try:
            stored = _Stored.model_validate_json(state_file.read_bytes())
            for correction in stored.corrections:
                self.corrections.apply(correction)
        except (OSError, ValidationError, CorrectionRefusedError) as error:
            raise StateUnreadableError(
                f"the state file {state_file.name} does not hold this service's state; "
                "remove it to start without faults and corrections"
            ) from error
        self.faults.restore(stored.faults)

    def _save(self) -> None:
        if self._file is None:
            return
        with self._lock:
            stored = _Stored(faults=self.faults.in_force(), corrections=self.corrections.in_force())
            write_whole(self._file, stored.model_dump_json())


def write_whole(path: Path, text: str) -> None:
    """Replace a file's content in one step, readable by its owner alone. Raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "w", encoding="utf-8", opener=_open_private) as file:
            file.write(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
