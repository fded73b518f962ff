#!/usr/bin/env bash
# GRPO on Frozen Lake, generation and training on the same GPUs: grpo_colocate.sh [MODEL]
#   GAME=sudoku SCHEDULER=jaxgym_sudoku_scheduler grpo_colocate.sh      another game, with its dataset beside this file
set -euo pipefail
cd "$(dirname "$0")"
MODEL=${1:-Qwen/Qwen2.5-3B-Instruct}
GAME=${GAME:-frozen_lake}
SCHEDULER=${SCHEDULER:-gym_scheduler}

# The games run on the CPU and leave the GPUs to the model.
export JAX_PLATFORMS=cpu

swift rlhf --rlhf_type grpo \
    --model "$MODEL" \
    --dataset "$GAME.jsonl" \
    --external_plugins jaxgym_plugin.py \
    --multi_turn_scheduler "$SCHEDULER" \
    --use_gym_env true \
    --max_turns "${MAX_TURNS:-80}" \
    --use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.5 \
    --num_generations 8 --per_device_train_batch_size 4 --gradient_accumulation_steps 2 \
    --max_completion_length 2048 --max_length 8192 \
    --learning_rate 1e-6 --beta 0.0 --temperature 1.0 \
    --tuner_type full --torch_dtype bfloat16 --logging_steps 1 --log_completions true \
    --output_dir "runs/$GAME"
