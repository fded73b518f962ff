"""What depends on parameters alone, taken out of a loop.

A step of acting casts kernels to the type of the computation, and brings them into the form that its products want, at
each step anew: XLA leaves in a loop what stands in it, even where it is the same in every round.
"""

from collections.abc import Callable, Iterable
from typing import Any

import jax
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

_MANY_TIMES = 8  # as large: a bias repeated for each lane is, a product of two kernels is not


def prepare(function: Callable[..., Any], fixed: Any, *others: Any) -> Callable[..., Any]:
    """The function of `others` that `function(fixed, *others)` is, after what follows from `fixed` alone was computed.

    Results are the same. What is many times larger than what it is made of, such as a bias repeated for each lane, is
    left to the function: reading it would take longer than making it.

    Args:
        function: of arrays in any containers; without side effects.
        fixed: its first argument, arrays in any container.
        others: arguments like those that it will be given, of which only shapes and types count.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(fixed, *others)
    jaxpr, leaves = closed.jaxpr, jax.tree.leaves(fixed)
    given, taken = jaxpr.invars[: len(leaves)], jaxpr.invars[len(leaves) :]
    makers: dict[Any, Any] = {variable: None for variable in (*jaxpr.constvars, *given)}
    early, later = [], []
    for equation in jaxpr.eqns:
        inputs = _variables(equation.invars)
        if inputs and all(variable in makers for variable in inputs) and not equation.effects:
            early.append(equation)
            makers |= dict.fromkeys(equation.outvars, equation)
        else:
            later.append(equation)
    plan = _with_larger(later, makers)
    made = {variable for equation in plan for variable in equation.outvars}.union(jaxpr.constvars, taken)
    read = _variables(variable for equation in plan for variable in equation.invars) + _variables(jaxpr.outvars)
    kept = [variable for variable in dict.fromkeys(read) if variable not in made]
    before = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr.replace(invars=given, outvars=kept, eqns=early), closed.consts))
    after = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr.replace(invars=[*kept, *taken], eqns=plan), closed.consts))
    prepared = _computed(before, leaves)

    def rest(*others: Any) -> Any:
        return jax.tree.unflatten(jax.tree.structure(result), after(*prepared, *jax.tree.leaves(others)))

    return rest


def _computed(function: Callable[..., Any], leaves: list[Any]) -> Any:
    """The function of these arrays: at once where they are known, be it while something else is traced.

    To that program they would be constants, and the compiler multiplies constants far slower than a program does.
    """
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        return function(*leaves)
    with jax.ensure_compile_time_eval():
        return jax.jit(function)(*leaves)


def _with_larger(later: Iterable[Any], makers: dict[Any, Any]) -> list[Any]:
    """The later equations, each after those of `makers` whose results are too large to be kept for it."""
    plan, planned = [], set()

    def is_larger(maker: Any) -> bool:
        return _bytes(maker.outvars) > _MANY_TIMES * _bytes(_variables(maker.invars))

    def add(equation: Any) -> None:
        for variable in _variables(equation.invars):
            maker = makers.get(variable)
            if maker is not None and id(maker) not in planned and is_larger(maker):
                planned.add(id(maker))
                add(maker)
        plan.append(equation)

    for equation in later:
        add(equation)
    return plan


def _variables(atoms: Iterable[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def _bytes(variables: Iterable[Any]) -> int:
    return sum(variable.aval.size * variable.aval.dtype.itemsize for variable in variables)
