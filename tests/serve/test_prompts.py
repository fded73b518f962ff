"""System prompts of sessions: they state the rewards and the limits of the session's options."""

from typing import Any

import pytest

from jaxgym import text
from jaxgym.options import resolve
from jaxgym.serve.pool.games import system_prompt_of
from jaxgym.serve.sessions import SESSION_OPTIONS, SessionOptions
from tests.ids import short_names_of_programs

PARAMS, INTERFACE = text.make("frozen_lake", observation="symbolic")[1:]
PENALTIES = {"step_penalty": 0.01, "invalid_reply_penalty": 0.5, "format_penalty": 0.25}


def prompt_of(**options: Any) -> str:
    session_options = SessionOptions(**resolve(INTERFACE.env_id, SESSION_OPTIONS, options))
    return system_prompt_of(INTERFACE, PARAMS, session_options)


def test_a_session_with_the_default_options_has_the_prompt_of_the_text_interface() -> None:
    assert prompt_of() == INTERFACE.system_prompt(PARAMS)


@pytest.mark.parametrize("name", short_names_of_programs())
def test_the_prompt_of_a_text_interface_leaves_the_effect_of_an_invalid_reply_to_the_session(name: str) -> None:
    _, params, interface = text.make(name)
    prompt = interface.system_prompt(params).replace("An invalid reply is a turn, too.", "")
    assert "invalid repl" not in prompt.lower()


@pytest.mark.parametrize("name", short_names_of_programs())
def test_a_prompt_names_another_end_of_the_episode_only_after_a_first_one(name: str) -> None:
    _, params, interface = text.make(name)
    prompt = interface.system_prompt(params)
    first, also = prompt.find("The episode ends"), prompt.find("The episode also ends")
    assert also < 0 or 0 <= first < also


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        (
            PENALTIES,
            "Further rewards: -0.01 for each turn; -0.5 for an invalid reply; "
            "-0.25 for a valid reply that is not in the requested format.",
        ),
        ({"on_invalid_reply": "end"}, "An invalid reply ends the episode."),
        ({"on_invalid_reply": "fallback"}, "An invalid reply counts as left."),
        ({"max_turns": 7}, "The episode also ends after 7 turns. A turn with an invalid reply counts."),
    ],
)
def test_a_prompt_states_the_options_of_its_session_before_the_form_of_a_reply(
    options: dict[str, Any], rules: str
) -> None:
    prompt, form = prompt_of(**options), INTERFACE.reply_format()
    assert prompt.endswith(f"\n\n{rules}\n\n{form}")
    assert prompt.replace(f"\n\n{rules}\n\n", "\n") == INTERFACE.system_prompt(PARAMS)
