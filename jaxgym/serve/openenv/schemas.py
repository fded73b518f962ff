"""JSON schemas of actions, observations and states, as `GET /schema` returns them."""

_NUMBER_OR_NONE = {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "number"}, {"type": "null"}]}
_METADATA = {"type": "object", "additionalProperties": True, "title": "Metadata", "description": "Not read."}

ACTION = {
    "type": "object",
    "title": "Reply",
    "additionalProperties": False,
    "properties": {
        "metadata": _METADATA,
        "message": {"type": "string", "title": "Message", "description": "The reply of the model, as it is."},
    },
    "required": ["message"],
}

_MESSAGE = {
    "type": "object",
    "title": "Message",
    "properties": {
        "sender_id": {"type": "integer", "description": "-1 is the game."},
        "content": {"type": "string", "description": "The newest text, perhaps behind the one before."},
        "category": {"type": "string"},
    },
    "required": ["sender_id", "content", "category"],
}

OBSERVATION = {
    "type": "object",
    "title": "Observation",
    "additionalProperties": False,
    "properties": {
        "done": {"type": "boolean", "default": False, "description": "Whether the episode has ended."},
        "reward": {**_NUMBER_OR_NONE, "default": None, "description": "The reward of this turn."},
        "metadata": _METADATA,
        "prompt": {"type": "string", "description": "The rules and the form of a reply."},
        "text": {"type": "string", "description": "The newest text."},
        "messages": {"type": "array", "items": _MESSAGE, "description": "The newest text as TextArena has it."},
        "info": {
            "type": "object",
            "additionalProperties": True,
            "description": "Turn, seed, text version, invalid reply, reward signals, and final figures of the episode.",
        },
    },
    "required": ["prompt", "text", "messages", "info"],
}

STATE = {
    "type": "object",
    "title": "State",
    "additionalProperties": True,
    "properties": {
        "episode_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "step_count": {"type": "integer", "minimum": 0, "default": 0},
        "env_id": {"type": "string"},
        "seed": {"type": "integer"},
        "total_reward": {"type": "number"},
        "terminated": {"type": "boolean"},
        "truncated": {"type": "boolean"},
    },
}

SCHEMAS = {"action": ACTION, "observation": OBSERVATION, "reset_observation": OBSERVATION, "state": STATE}
