"""Language model of a local folder in Hugging Face's format, as a function of a batch of chats."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxgym import extras
from jaxgym.errors import OptionError
from jaxgym.serve.rollout.policies import Chat, Choice, Message


def local_model(
    folder: Path,
    *,
    max_tokens: int = 256,
    temperature: float = 1.0,
    top_p: float | None = None,
    seed: int | None = None,
    device: str | None = None,
) -> Callable[[list[Chat]], list[Choice]]:
    """Load a model and its tokenizer from a folder, without downloads.

    Args:
        folder: Folder that `save_pretrained` of the model and the tokenizer has written.
        max_tokens: Maximum number of tokens of a reply.
        temperature: Sampling temperature; 0 selects the most likely token.
        top_p: Probability mass of nucleus sampling; None uses that of the model's folder.
        seed: Seed of torch's random numbers; None leaves them as they are. Equal batches then get equal replies.
        device: A device of torch; if None, a GPU if there is one, else the CPU.

    Returns:
        A function that takes chats and returns a reply for each, with the number of tokens of prompt and reply.

    Raises:
        ImportError: If `transformers` or `torch` is missing.
        OptionError: If the folder contains no model.
    """
    torch, transformers = _packages()
    if not (folder / "config.json").exists():
        raise OptionError(f"{folder}: expected a folder written by save_pretrained, got one without a config.json.")
    tokenizer = from_folder(transformers.AutoTokenizer, folder, padding_side="left")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = from_folder(transformers.AutoModelForCausalLM, folder, dtype="auto").to(device)
    model.eval()
    if seed is not None:
        torch.manual_seed(seed)
    sampling, ends = _sampling(temperature, top_p), _ends(model, tokenizer)

    def replies(chats: list[Chat]) -> list[Choice]:
        prompts = [prompt_of(tokenizer, chat) for chat in chats]
        batch = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False).to(device)
        with torch.no_grad():
            made = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=max_tokens,
                pad_token_id=tokenizer.pad_token_id,
                **sampling,
            )
        tokens = made[:, batch["input_ids"].shape[1] :]
        texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
        prompt_sizes = batch["attention_mask"].sum(1).tolist()
        return [
            choice_of(text, written, size, ends)
            for text, written, size in zip(texts, tokens.tolist(), prompt_sizes, strict=True)
        ]

    return replies


def from_folder(loader: Any, folder: Path, **arguments: Any) -> Any:
    """Return what a class of transformers loads from a folder, without downloads.

    Raises:
        OptionError: If the class can't read the folder.
    """
    try:
        return loader.from_pretrained(folder, local_files_only=True, **arguments)
    except Exception as error:  # transformers, tokenizers and safetensors raise errors of many classes for bad files
        reason = str(error).strip().partition("\n")[0]
        raise OptionError(
            f"{folder}: expected a folder written by save_pretrained of the model and of the tokenizer, got "
            f"{type(error).__name__}: {reason}"
        ) from error


def _packages() -> tuple[Any, Any]:
    try:
        return importlib.import_module("torch"), importlib.import_module("transformers")
    except ImportError as error:
        raise ImportError(extras.missing("rollout", error.name, beside=("torch", "transformers"))) from error


def choice_of(text: str, tokens: Sequence[int], prompt_tokens: int, ends: set[int]) -> Choice:
    """Return the choice of a generated row: its text, and its tokens, perhaps with an end token and padding."""
    size = next((place for place, token in enumerate(tokens, 1) if token in ends), None)
    reason = "length" if size is None else "stop"
    return Choice(Message(text), reason, prompt_tokens, len(tokens) if size is None else size)


def _sampling(temperature: float, top_p: float | None) -> dict[str, Any]:
    if temperature <= 0:
        return {"do_sample": False}
    return {"do_sample": True, "temperature": temperature, **({} if top_p is None else {"top_p": top_p})}


def _ends(model: Any, tokenizer: Any) -> set[int]:
    given = getattr(model.generation_config, "eos_token_id", None)
    given = tokenizer.eos_token_id if given is None else given
    return set(given) if isinstance(given, list | tuple) else {given}


def prompt_of(tokenizer: Any, chat: Chat) -> str:
    """Return the text of a chat with the start of a reply, by the chat template of the tokenizer if it has one."""
    if tokenizer.chat_template:
        return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    said = "".join(f"{message['role']}: {message['content']}\n\n" for message in chat)
    return f"{said}assistant: "
