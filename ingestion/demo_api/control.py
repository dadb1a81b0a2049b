"""The switches at `/control`: faults and corrections are set, listed and cleared here.

A request is validated strictly and whole; a refused one changes nothing.
"""

from dataclasses import asdict

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingestion.demo_api.answers import error_answer, invalid_control_answer
from ingestion.demo_api.corrections import Correction, CorrectionRefusedError
from ingestion.demo_api.faults import ActiveFault, FaultRule
from ingestion.demo_api.state import ServiceState


def control_routes(state: ServiceState) -> list[Route]:
    """Return the routes below `/control`, to be mounted behind the token."""
    return [*_FaultSwitch(state).routes(), *_CorrectionSwitch(state).routes()]


class _FaultSwitch:
    def __init__(self, state: ServiceState) -> None:
        self._faults = state.faults

    def routes(self) -> list[Route]:
        return [
            Route("/faults", self._list, methods=["GET"]),
            Route("/faults", self._add, methods=["POST"]),
            Route("/faults", self._clear, methods=["DELETE"]),
            Route("/faults/{fault_id:int}", self._remove, methods=["DELETE"]),
        ]

    async def _list(self, _: Request) -> Response:
        listed = [_fault_json(active) for active in self._faults.in_force()]
        return JSONResponse({"faults": listed})

    async def _add(self, request: Request) -> Response:
        try:
            rule = FaultRule.model_validate_json(await request.body())
        except ValidationError as error:
            return invalid_control_answer(error)
        return JSONResponse(_fault_json(self._faults.add(rule)), 201)

    async def _clear(self, _: Request) -> Response:
        self._faults.clear()
        return Response(status_code=204)

    async def _remove(self, request: Request) -> Response:
        if self._faults.remove(request.path_params["fault_id"]):
            return Response(status_code=204)
        return error_answer(404, "unknown_fault", "no such fault is in force; list them with GET")


class _CorrectionSwitch:
    def __init__(self, state: ServiceState) -> None:
        self._state = state

    def routes(self) -> list[Route]:
        return [
            Route("/corrections", self._list, methods=["GET"]),
            Route("/corrections", self._add, methods=["POST"]),
            Route("/corrections", self._clear, methods=["DELETE"]),
        ]

    async def _list(self, _: Request) -> Response:
        in_force = self._state.corrections.in_force()
        listed = [correction.model_dump(mode="json") for correction in in_force]
        return JSONResponse({"corrections": listed})

    async def _add(self, request: Request) -> Response:
        try:
            correction = Correction.model_validate_json(await request.body())
            effect = await run_in_threadpool(self._state.correct, correction)
        except ValidationError as error:
            return invalid_control_answer(error)
        except CorrectionRefusedError as error:
            return error_answer(422, "correction_refused", str(error))
        return JSONResponse(asdict(effect), 201)

    async def _clear(self, _: Request) -> Response:
        self._state.clear_corrections()
        return Response(status_code=204)


def _fault_json(active: ActiveFault) -> dict[str, object]:
    rule = active.rule.model_dump(mode="json")
    return {"id": active.id, **rule, "times_left": active.times_left}
