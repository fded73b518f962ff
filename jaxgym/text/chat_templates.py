"""Delimiters of reasoning and tokens of turns in the chat templates of language models."""

import re

REASONING = (
    # Most open models, such as DeepSeek-R1, Qwen3, GLM-4.5, MiniMax-M2, Nemotron, EXAONE and Reka Flash.
    *((f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "thoughts", "reasoning")),
    *((f"<{name}>", f"</{name}>") for name in ("think_fast", "think_faster")),  # K2-V2
    *((f"<ifm|{name}>", f"</ifm|{name}>") for name in ("think", "think_fast", "think_faster")),  # K2 Horizon
    ("<think:opensource>", "</think:opensource>"),  # Hunyuan 3
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<longcat_think>", "</longcat_think>"),  # LongCat
    ("<mm:think>", "</mm:think>"),  # MiniMax-M3
    ("[think]", "[/think]"),  # Magistral and other Mistral models
    ("◁think▷", "◁/think▷"),  # Kimi-VL-Thinking
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),  # Kimi K3
    ("<|start_thinking|>", "<|end_thinking|>"),  # Command A Reasoning
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1, OpenThinker
    ("<|think:start|>", "<|think:end|>"),  # Solar Open 2
    ("<|think|>", "<|content|>"),  # Solar Open
    ("<|content_thinking|>", "<|content_text|>"),  # Inkling
    ("<|channel>", "<channel|>"),  # Gemma 4
    ("[unused16]", "[unused17]"),  # Pangu
    ("here is my thought process:", "here is my response:"),  # Granite 3.2
    ("here's my thought process:", "here's my response:"),
    ("here?s my thought process:", "here?s my response:"),  # a typographic apostrophe
    ("here are my reasoning steps:", "[begin final response]"),  # Apriel
)
"""Opening and closing delimiters of reasoning in the chat templates of open models, in lower case."""

STRUCK = (("<del>", "</del>"), ("<strike>", "</strike>"))
"""HTML tags of struck-through text, which is removed like reasoning."""

ENDS = (
    *("</s>", "<s>", "<eos>", "<bos>", "<end_of_turn>", "<start_of_turn>", "<turn|>", "<|turn>", "<|tool>"),
    *("<|im_end|>", "<|eot|>", "<|eot_id|>", "<|eom_id|>", "<|return|>", "<|call|>"),
    *("<|endoftext|>", "<|end_of_text|>"),
    *("<|end_response|>", "<|end_of_turn_token|>", "<|end_of_solution|>", "<|assistant_end|>"),
    *("<|user|>", "<|system|>", "<|observation|>", "<|assistant|>", "<|tool|>", "<|tool_response|>", "<|developer|>"),
    *("<|im_start|>", "<|im_user|>", "<|im_system|>", "<|im_assistant|>", "<|start_header_id|>", "<|header_start|>"),
    *("<|start_of_role|>", "<|start_of_turn_token|>", "<|user_token|>", "<|system_token|>", "<|chatbot_token|>"),
    *("<|user_start|>", "<|system_start|>", "<|developer_start|>", "<|begin_of_text|>", "<|startoftext|>"),
    *("<|end_of_role|>", "<|end_header_id|>", "<|eos|>", "<|endofturn|>", "<|pad|>", "<end_of_utterance>"),
    *("<seed:eos>", "<seed:bos>"),  # Seed-OSS
    *("[e~[", "]~b]", "]~!b["),  # MiniMax
    *("<special_10>", "<special_11>", "<special_12>", "<extra_id_0>", "<extra_id_1>"),  # Nemotron
    *("</longcat_s>", "<longcat_s>", "<|end_of_sentence|>", "<|begin_of_sentence|>"),  # LongCat, ERNIE
    *("<\uff5chy_eos\uff5c>", "<\uff5chy_user\uff5c>", "<\uff5chy_place▁holder▁no▁2\uff5c>"),  # Hunyuan
    *("<|hy_user|>", "<|hy_assistant|>", "<|hy_eos|>"),
    *("<|role_end|>", "<|eom|>", "<|bom|>", "<|endofassistant|>", "<|userprompt|>"),  # Ling, Jamba, dots
    *("<\uff5ceot\uff5c>", "<\uff5cbot\uff5c>"),  # Step
    *(f"<\uff5c{name}\uff5c>" for name in ("user", "assistant", "end▁of▁sentence", "begin▁of▁sentence")),
    *(f"<\uff5ctool▁{name}\uff5c>" for name in ("outputs▁begin", "output▁begin")),
    *("</response>", "[end final response]", "<|close|>response<|sep|>"),
    *("[|endofturn|]", "[|user|]", "[|system|]", "[|assistant|]", "[|tool|]"),  # EXAONE
    *("[inst]", "[/inst]", "[tool_results]", "[system_prompt]", "[/system_prompt]"),  # Mistral
    *("<tool_response>", "<tool_responses>", "<tool_result>", "<tool_results>", "<function_results>"),
    *("<|tool_response>", "<tool_output>", "<observation>"),
)
"""Tokens that end the turn of the assistant or begin another role's turn, in lower case."""

INSIDE = (
    *("<|start_response|>", "<|begin_of_solution|>", "<|content|>", "<|content_text|>"),
    *("<|begin_of_box|>", "<|end_of_box|>", "<|python_start|>", "<|python_end|>", "<|/tool_call|>"),
    *("<|open|>", "<|close|>", "<|sep|>", "<|message|>", "<|constrain|>", "<|python_tag|>", '<|"|>'),
    *("<|tool_call|>", "<|tool_calls|>", "<|tool_call_start|>", "<|tool_call_end|>", "<|tool_call_begin|>"),
    *("<|tool_call_argument_begin|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    *("<|tools_prefix|>", "<|tools_suffix|>", "<|start_action|>", "<|end_action|>"),
    *(f"<\uff5ctool▁{name}\uff5c>" for name in ("calls▁begin", "call▁begin", "sep", "call▁end", "calls▁end")),
)
"""Tokens that can be part of an answer, in lower case."""

LEADING = re.compile(
    "(?:"
    + "|".join(
        (
            "\ufeff",
            r"<s>|<bos>|<\|begin_of_text\|>|<\|startoftext\|>|<\uff5cbegin▁of▁sentence\uff5c>",
            r"<\|im_start\|>assistant(?:<\|im_sep\|>)?|<\|im_assistant\|>assistant<\|im_middle\|>",
            r"<\|start_header_id\|>assistant<\|end_header_id\|>|<\|header_start\|>assistant<\|header_end\|>",
            r"<\|start_of_role\|>assistant<\|end_of_role\|>|<start_of_turn>model|<\|turn>model",
            r"<\|assistant\|>|<\|assistant_start\|>|<\uff5cassistant\uff5c>|\[\|assistant\|\]|\[/inst\]",
            r"<\|start_of_turn_token\|>|<\|chatbot_token\|>|<\|start_response\|>|<\|begin_of_solution\|>",
            r"<seed:bos>assistant|\]~b\]ai|<special_11>assistant",
            r"<\|content\|>|<\|content_text\|>|<response>|<\|open\|>response<\|sep\|>",
        )
    )
    + r")\s{0,8}",
    re.IGNORECASE | re.ASCII,
)
"""Tokens of chat templates before an answer."""
