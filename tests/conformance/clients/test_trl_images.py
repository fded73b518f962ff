"""TRL's trainer learns from episodes with images, with a tiny random vision-language model; skipped without TRL.

Scripted completions take the place of generation: a call of the tool in each turn, then an empty reply. The forward and
the backward pass read the images of all turns. The test uses a GPU if there is one.
"""

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from jaxgym.serve import trl
from tests.conformance.clients.tiny_chat import END, IMAGE, processor, tokenizer

sys.path += filter(None, [os.environ.get("TRL")])  # `make conformance` installs TRL beside the other clients
hub = pytest.importorskip("trl")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

OPTIONS = {"command_count": [2], "command_show_duration": [1], "command_show_delay": [0], "observation_mode": "both"}
TURNS = 4
TEMPLATE = (
    "{%- for message in messages -%}<|im_start|>{{ message.role }}\n"
    "{%- if message.content is string -%}{{ '\n' + message.content }}{%- elif message.content -%}{{ '\n' }}"
    "{%- for part in message.content -%}"
    "{%- if part.type == 'text' -%}{{ part.text }}"
    "{%- else -%}<|vision_start|><|image_pad|><|vision_end|>{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{%- for call in message.tool_calls or [] -%}{{ '\n' + call.function.name }}("
    "{%- for name, value in call.function.arguments.items() -%}{{ name }}={{ value | tojson }}{%- endfor -%})"
    "{%- endfor -%}<|im_end|>{{ '\n' }}"
    "{%- endfor -%}{%- if add_generation_prompt -%}<|im_start|>assistant{{ '\n' }}{%- endif -%}"
)
RESPONSE = Path(__file__).parents[3] / "examples/llm/response_template.json"


def tiny(tokens: Any) -> Any:
    """Return a random vision-language model of one layer."""
    marks = {"image_token_id": IMAGE, "vision_start_token_id": "<|vision_start|>"}
    marks |= {"vision_end_token_id": "<|vision_end|>", "video_token_id": "<|video_pad|>"}
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokens),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
        vision_config={"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32},
        **{name: tokens.convert_tokens_to_ids(mark) for name, mark in marks.items()},
        pad_token_id=tokens.pad_token_id,
        eos_token_id=tokens.eos_token_id,
    )
    return transformers.Qwen2_5_VLForConditionalGeneration(config)


def test_a_training_step_reads_the_images_of_all_turns(tmp_path: Path) -> None:
    tokens = tokenizer()
    tokens.chat_template = TEMPLATE
    tokens.response_template = json.loads(RESPONSE.read_text())
    reader = processor(tokens)
    reader.chat_template = TEMPLATE
    model, turns, seen = tiny(tokens), [0], list[int]()
    reads = model.model.visual.forward

    def visual(pixels: Any, grid_thw: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(len(grid_thw))
        return reads(pixels, grid_thw, *args, **kwargs)

    model.model.visual.forward = visual
    rows = [{"prompt": [{"role": "user", "content": "Play this game."}], "seed": 0}]
    trainer = hub.GRPOTrainer(
        model,
        args=hub.GRPOConfig(
            output_dir=str(tmp_path),
            num_generations=2,
            per_device_train_batch_size=2,
            max_completion_length=8192,
            max_tool_calling_iterations=TURNS,
            max_steps=1,
            logging_steps=1,
            bf16=False,
            save_strategy="no",
            report_to=[],
            use_cpu=not torch.cuda.is_available(),
        ),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=reader,
        environment_factory=functools.partial(trl.make, "mortar_mayhem_grid", **OPTIONS),
    )

    def completions(prompt_ids: list[list[int]], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        turns[0] += 1
        reply = ('act(actions="stay")' if turns[0] <= TURNS else "") + END
        return [tokens.encode(reply, add_special_tokens=False) for _ in prompt_ids], None

    trainer._generate_single_turn = completions
    trainer.train()
    assert turns[0] == TURNS + 1
    assert max(seen) == 2 * (TURNS + 1), "images of the first observation and of each turn, in two episodes"
    (row,) = [row for row in trainer.state.log_history if "grad_norm" in row]
    assert row["tools/call_frequency"] == TURNS
    assert row["tools/failure_frequency"] == 0
