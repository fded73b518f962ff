"""Checks of the values that the methods of a text interface return, for its callers and for `jaxgym.testing`."""

import numbers
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax

from jaxgym.environment import AnyEnvironment
from jaxgym.errors import ContractError, shown
from jaxgym.options import is_integer, plain
from jaxgym.spaces import Discrete
from jaxgym.text.interface import TextInterface
from jaxgym.text.turns import InvalidReply, ParsedAction, RewardTracker, Turn

T = TypeVar("T")

_OPTIONAL = ("reply_of", "fallback")
_ODD = ("", " \n", "?", "<action>", "<action></action>", "\u2190 \U0001f600", "a" * 10_000, "<" * 1000)


def check_interface(env_id: str, interface: Any, params: Any) -> None:
    """Check what a text interface returns independent of an episode.

    Raises:
        ContractError: If it is no `TextInterface`, its prompt or reply format is no string, or `max_actions` is no
            integer of at least 1.
    """
    if not isinstance(interface, TextInterface):
        raise ContractError(f"{env_id}: TextSpec.build: expected a jaxgym.text.TextInterface, got {shown(interface)}.")
    for method, arguments in (("system_prompt", (params,)), ("reply_format", ())):
        checked_text(env_id, method, _result(env_id, method, getattr(interface, method), *arguments))
    if not is_integer(interface.max_actions) or interface.max_actions < 1:
        raise ContractError(f"{env_id}: max_actions: expected an integer of at least 1, got {interface.max_actions!r}.")


def parse(interface: TextInterface[Any], reply: str, space: Any) -> ParsedAction | InvalidReply:
    """Return the parsed reply; `space` is the action space.

    Raises:
        ContractError: If `interface.parse` raises, or returns anything else than an `InvalidReply` or a `ParsedAction`
            with actions of the space.
    """
    try:
        parsed = interface.parse(reply)
    except Exception as error:
        raise ContractError(
            f"{interface.env_id}: parse: expected a ParsedAction or an InvalidReply, got {type(error).__name__}: "
            f"{error}, for the reply {shown(reply)}."
        ) from error
    return checked_parsed(interface.env_id, "parse", parsed, space, reply)


def checked_parsed(
    env_id: str, method: str, parsed: Any, space: Any, reply: str | None = None
) -> ParsedAction | InvalidReply:
    """Return the value of `parse` or `fallback`; raise `ContractError` if it is of another kind.

    The error shows the reply that was parsed, if it is given.
    """
    expected, got = "", parsed
    if isinstance(parsed, InvalidReply):
        if not isinstance(parsed.reason, str):
            expected, got = "a reason that is a string", parsed.reason
    elif not isinstance(parsed, ParsedAction):
        expected = "a ParsedAction or an InvalidReply"
    elif not isinstance(parsed.actions, tuple | list):
        expected, got = "a tuple of actions", parsed.actions
    elif not isinstance(parsed.text, str):
        expected, got = "a text that is a string", parsed.text
    else:
        for action in parsed.actions:
            if not _is_action(action, space):
                expected, got = f"actions {_described(space)}", action
    if expected:
        call = method if reply is None else f"{method}({shown(reply)})"
        raise ContractError(f"{env_id}: {call}: expected {expected}, got {shown(got)}.")
    return parsed


def _is_action(action: Any, space: Any) -> bool:
    if isinstance(space, Discrete):
        return _is_below(action, space.n)
    if type(action) is not tuple:  # tuples need no conversion
        action = plain(action)
    if not isinstance(action, tuple | list) or len(action) != len(space.nvec):
        return False
    return all(map(_is_below, action, space.nvec))


def _is_below(number: Any, end: int) -> bool:
    return (type(number) is int or is_integer(plain(number))) and 0 <= number < end


def _described(space: Any) -> str:
    if not isinstance(space, Discrete):
        return f"that are tuples of {len(space.nvec)} integers below {space.nvec}"
    return f"from 0 to {space.n - 1}"


def checked_text(env_id: str, method: str, text: Any) -> str:
    """Return a text; raise `ContractError` if it is no string."""
    if not isinstance(text, str):
        raise ContractError(f"{env_id}: {method}: expected a string, got {shown(text)}.")
    return text


def check_texts(env_id: str, method: str, texts: Sequence[Any], count: int) -> None:
    """Raise `ContractError` if texts are not a list of `count` strings."""
    if not isinstance(texts, Sequence) or len(texts) != count:
        raise ContractError(f"{env_id}: {method}: expected a list of {count} strings, got {shown(texts)}.")
    if not set(map(type, texts)) <= {str}:
        for text in texts:
            checked_text(env_id, method, text)


def check_text(env: AnyEnvironment, params: Any, interface: TextInterface[Any], *, seed: int = 0) -> None:
    """Check that a text interface satisfies its contract, in one episode of random actions and invalid replies.

    `jaxgym.text.make` returns the three arguments.

    - `system_prompt`, `reply_format`, `open` and `respond` return strings.
    - `parse` never raises, gives equal results for equal replies, and returns actions of the action space.
    - The reply that `reply_of` returns for an action parses to that action, and it is exact.
    - `fallback` returns actions. `reply_of` and `fallback` are checked only if they are defined.
    - `reward_tracker` returns components that are numbers, with equal names in every turn.

    Args:
        env: The environment.
        params: Its parameters; those of `make` if None.
        interface: Its text interface.
        seed: Seed of the PRNG keys.

    Raises:
        ContractError: If the text interface violates the contract.
    """
    params = env.default_params if params is None else params
    env_id, space = env.env_id, env.action_space(params)
    check_interface(env_id, interface, params)
    defined = {name for name in _OPTIONAL if getattr(type(interface), name) is not getattr(TextInterface, name)}
    if "fallback" in defined:
        checked_parsed(env_id, "fallback", _result(env_id, "fallback", interface.fallback), space)
    for reply in _ODD:
        if parse(interface, reply, space) != parse(interface, reply, space):
            raise ContractError(f"{env_id}: parse: expected equal results for two equal replies, got others.")
    reset, step, scene_of = jax.jit(env.reset), jax.jit(env.step_env), jax.jit(env.scene)
    state: Any = None
    tracker, names = RewardTracker(), None
    for number, (key, odd) in enumerate(zip(jax.random.split(jax.random.key(seed), len(_ODD)), _ODD, strict=True), 1):
        key_reset, key_action, key_step = jax.random.split(key, 3)
        if state is None:
            state = reset(key_reset, params)[1]
            scene = jax.device_get(scene_of(state, params))
            checked_text(env_id, "open", _result(env_id, "open", interface.open, scene, params))
            tracker = _result(env_id, "reward_tracker", interface.reward_tracker, scene, params)
            _check_tracker(env_id, tracker)
        reply = odd
        if "reply_of" in defined and number % 2:
            action = space.sample(key_action).tolist()
            action = tuple(action) if isinstance(action, list) else action
            reply = checked_text(env_id, "reply_of", _result(env_id, "reply_of", interface.reply_of, action))
            _check_reply_of(interface, action, reply, space)
        parsed = parse(interface, reply, space)
        reward, ended = 0.0, False
        for action in parsed.actions if isinstance(parsed, ParsedAction) else ():
            if not ended:
                _, state, added, ended, _ = step(key_step, state, action, params)
                reward, ended = reward + float(added), bool(ended)
        scene = jax.device_get(scene_of(state, params))
        turn = Turn(number, parsed, scene, reward, ended, truncated=False)
        checked_text(env_id, "respond", _result(env_id, "respond", interface.respond, turn, params))
        components = _result(env_id, "reward_tracker.components", tracker.components, turn)
        names = _check_components(env_id, components, names)
        state = None if ended else state


def _check_reply_of(interface: TextInterface[Any], action: Any, reply: str, space: Any) -> None:
    # Several actions can have one reply, so the actions themselves may differ.
    parsed = parse(interface, reply, space)
    actions = parsed.actions if isinstance(parsed, ParsedAction) and parsed.is_exact else ()
    if len(actions) != 1 or interface.reply_of(actions[0]) != reply:
        raise ContractError(
            f"{interface.env_id}: reply_of({action}): expected a reply that parses exactly to this action, "
            f"got {shown(reply)}, which parses to {shown(parsed)}."
        )


def _check_tracker(env_id: str, tracker: Any) -> None:
    if not isinstance(tracker, RewardTracker):
        raise ContractError(f"{env_id}: reward_tracker: expected a jaxgym.text.RewardTracker, got {shown(tracker)}.")


def _check_components(env_id: str, components: Any, names: Any) -> Any:
    is_known = isinstance(components, dict) and (names is None or set(components) == names)
    if not is_known or not all(isinstance(part, numbers.Real) for part in components.values()):
        expected = "a dict of numbers" if names is None else f"a dict of numbers with the names {sorted(names)}"
        raise ContractError(f"{env_id}: reward_tracker.components: expected {expected}, got {shown(components)}.")
    return set(components)


def _result(env_id: str, method: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a method; raise `ContractError` if it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ContractError(f"{env_id}: {method}: expected a return value, got {cause}.") from error
