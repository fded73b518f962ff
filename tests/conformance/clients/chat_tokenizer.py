"""Tokenizer of characters with ChatML marks, for generators that work on tokens."""

from collections.abc import Sequence
from typing import Any

START, END, IMAGE = 0x110000, 0x110001, 0x110002  # beyond Unicode


class ChatTokenizer:
    """The methods of a tokenizer of Hugging Face that trainers call; one token per character."""

    eos_token, eos_token_id, name_or_path = "<|im_end|>", END, "characters"

    def encode(self, text: str, **_: Any) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return "".join(chr(each) for each in ids if each < START)

    def apply_chat_template(
        self, chat: Sequence[Any], *, add_generation_prompt: bool = False, return_dict: bool = False, **_: Any
    ) -> Any:
        if chat and isinstance(chat[0], list):
            given = [self.apply_chat_template(each, add_generation_prompt=add_generation_prompt) for each in chat]
            return {"input_ids": given} if return_dict else given
        ids = list[int]()
        for message in chat:
            ids += [START, *self.encode(f"{message['role']}\n"), *self._content(message["content"]), END, ord("\n")]
        if add_generation_prompt:
            ids += [START, *self.encode("assistant\n")]
        return {"input_ids": ids} if return_dict else ids

    def _content(self, content: Any) -> list[int]:
        if isinstance(content, str):
            return self.encode(content)
        return [each for part in content for each in (self.encode(part["text"]) if "text" in part else [IMAGE])]

    def chat(self, ids: Sequence[int]) -> list[dict[str, str]]:
        """Return the messages of a prompt, without the empty one that asks for a reply."""
        spans, parts = list[list[int]](), list(ids)
        for each in parts:
            if each == START:
                spans.append([])
            elif spans:
                spans[-1].append(each)
        messages = list[dict[str, str]]()
        for span in spans:
            role, _, content = self.decode(span[: span.index(END)] if END in span else span).partition("\n")
            messages.append({"role": role, "content": content})
        return messages[:-1] if messages[-1] == {"role": "assistant", "content": ""} else messages
