"""Find a small script that still fails: leave out steps, in large pieces first, as long as it fails alike."""

from collections.abc import Callable
from dataclasses import replace

from belvedere.sim.model.plans import Interrupted, Plan, Run, Step, Stop, Together
from belvedere.sim.model.run import Failure, carry_out
from belvedere.sim.model.writes import Batch

Carry = Callable[[Plan], Failure | None]


def shrunk(failure: Failure, carry: Carry = carry_out, budget: int = 400) -> Failure:
    """`budget` bounds the runs that are tried."""
    left = [budget]

    def attempt(best: Failure, plan: Plan) -> Failure | None:
        if left[0] <= 0:
            return None
        left[0] -= 1
        found = carry(plan)
        return found if found is not None and _kind(found) == _kind(best) else None

    best = failure
    size = max(1, len(best.plan.steps) // 2)
    while True:
        smaller = _drop_pieces(best, size, attempt)
        if size == 1 and smaller is best:
            break
        best = smaller
        size = max(1, size // 2)
        if left[0] <= 0:
            break
    return _simplify(best, attempt)


def _kind(failure: Failure) -> str:
    return failure.reason.split(":")[0]


def _drop_pieces(best: Failure, size: int, attempt: Callable[[Failure, Plan], Failure | None]) -> Failure:
    start = len(best.plan.steps) - size
    while start > -size:
        steps = best.plan.steps
        low = max(start, 0)
        found = attempt(best, replace(best.plan, steps=[*steps[:low], *steps[start + size :]]))
        if found is not None:
            best = found
        start -= size
    return best


def _simplify(best: Failure, attempt: Callable[[Failure, Plan], Failure | None]) -> Failure:
    """Simpler steps in place of those that are left."""
    for index in range(len(best.plan.steps)):
        for simpler in _simpler(best.plan.steps[index]):
            steps = list(best.plan.steps)
            steps[index] = simpler
            found = attempt(best, replace(best.plan, steps=steps))
            if found is not None:
                best = found
    return best


def _simpler(step: Step) -> list[Step]:
    if isinstance(step, Interrupted):
        found: list[Step] = [Stop(step.how)]
        found += [replace(step, steps=[one]) for one in step.steps if len(step.steps) > 1]
        if step.upkeep is not None:
            found.append(replace(step, upkeep=None))
        return found
    if isinstance(step, Together):
        fewer = [[c for c in step.clients if c is not client] for client in step.clients]
        shorter = [[c[:half] for c in step.clients] for half in (1, 3)]
        return [replace(step, clients=clients) for clients in fewer + shorter]
    if isinstance(step, Run) and isinstance(step.statement, Batch) and len(step.statement.children) > 1:
        batch = step.statement
        return [
            replace(step, statement=replace(batch, children=[c for c in batch.children if c is not child]))
            for child in batch.children
        ]
    return []
