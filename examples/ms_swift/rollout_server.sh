#!/usr/bin/env bash
# Server that generates replies for grpo_server.sh and runs the games: rollout_server.sh [MODEL]
set -euo pipefail
cd "$(dirname "$0")"
MODEL=${1:-Qwen/Qwen2.5-3B-Instruct}
SCHEDULER=${SCHEDULER:-gym_scheduler}

# The games run on the CPU and leave the GPUs to the model.
export JAX_PLATFORMS=cpu

swift rollout \
    --model "$MODEL" \
    --external_plugins jaxgym_plugin.py \
    --multi_turn_scheduler "$SCHEDULER" \
    --use_gym_env true \
    --max_turns "${MAX_TURNS:-80}" \
    --vllm_max_model_len 8192 \
    --port "${PORT:-8000}"
