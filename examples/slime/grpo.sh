#!/usr/bin/env bash
# GRPO on a game with slime: SLIME=/path/to/slime MEGATRON=/path/to/Megatron-LM grpo.sh CHECKPOINT TORCH_DIST
#   CHECKPOINT is a Hugging Face folder of Qwen2.5-3B-Instruct, TORCH_DIST the same weights converted by slime's tools.
#   GAME="mystery_path_grid max_turns=80" grpo.sh ...      another game, with its options
set -euo pipefail
cd "$(dirname "$0")"
SLIME=${SLIME:?set it to a checkout of slime}
MEGATRON=${MEGATRON:?set it to a checkout of Megatron-LM}
GAME=${GAME:-frozen_lake size=4 max_turns=16}
GPUS=${GPUS:-8}

# The games run on the CPU and leave the GPUs to the model.
export JAX_PLATFORMS=cpu PYTHONPATH="$SLIME:$MEGATRON:${PYTHONPATH:-}" CUDA_DEVICE_MAX_CONNECTIONS=1

# shellcheck disable=SC2086 # the game and its options are several words
jaxgym dataset --game $GAME --format slime --rows 1024 >train.jsonl

# shellcheck disable=SC1091 # sets MODEL_ARGS
source "$SLIME/scripts/models/qwen2.5-3B.sh"
python "$SLIME/train.py" "${MODEL_ARGS[@]}" \
    --hf-checkpoint "$1" --ref-load "$2" --load runs/slime --save runs/slime --save-interval 20 \
    --prompt-data train.jsonl --input-key prompt --metadata-key metadata --apply-chat-template --rollout-shuffle \
    --custom-generate-function-path jaxgym.serve.trainers.slime.generate \
    --num-rollout 100 --rollout-batch-size 32 --n-samples-per-prompt 8 --global-batch-size 256 \
    --rollout-max-response-len 6144 --rollout-temperature 1 \
    --advantage-estimator grpo --eps-clip 0.2 --eps-clip-high 0.28 \
    --optimizer adam --lr 1e-6 --lr-decay-style constant \
    --use-dynamic-batch-size --max-tokens-per-gpu 9216 \
    --actor-num-nodes 1 --actor-num-gpus-per-node "$GPUS" --colocate \
    --rollout-num-gpus-per-engine 1 --sglang-mem-fraction-static 0.6
