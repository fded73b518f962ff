#!/usr/bin/env bash
# GRPO with generation and games in a separate server; start the server first:
#   CUDA_VISIBLE_DEVICES=0 rollout_server.sh MODEL
#   CUDA_VISIBLE_DEVICES=1 grpo_server.sh MODEL
set -euo pipefail
cd "$(dirname "$0")"
MODEL=${1:-Qwen/Qwen2.5-3B-Instruct}
GAME=${GAME:-frozen_lake}

export JAX_PLATFORMS=cpu

# Without vllm_server_pass_dataset, the games do not receive env_config, which has the seed.
swift rlhf --rlhf_type grpo \
    --model "$MODEL" \
    --dataset "$GAME.jsonl" \
    --use_gym_env true \
    --use_vllm true --vllm_mode server \
    --vllm_server_host 127.0.0.1 --vllm_server_port "${PORT:-8000}" \
    --vllm_server_pass_dataset true \
    --num_generations 8 --per_device_train_batch_size 4 --gradient_accumulation_steps 2 \
    --max_completion_length 2048 --max_length 8192 \
    --learning_rate 1e-6 --beta 0.0 --temperature 1.0 \
    --tuner_type full --torch_dtype bfloat16 --logging_steps 1 --log_completions true \
    --output_dir "runs/$GAME"
