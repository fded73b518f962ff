#!/usr/bin/env bash
# GRPO on a game with verl: grpo.sh [MODEL]
#   GAME="mystery_path_grid max_turns=80" grpo.sh      another game, with its options
set -euo pipefail
cd "$(dirname "$0")"
MODEL=${1:-Qwen/Qwen2.5-3B-Instruct}
GAME=${GAME:-frozen_lake size=4 max_turns=16}

# The games run on the CPU and leave the GPUs to the model.
export JAX_PLATFORMS=cpu

# shellcheck disable=SC2086 # the game and its options are several words
jaxgym dataset --game $GAME --format verl --rows 1024 >train.jsonl
# shellcheck disable=SC2086
jaxgym dataset --game $GAME --format verl --rows 64 --split heldout >test.jsonl

python -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files=train.jsonl data.val_files=test.jsonl \
    data.train_batch_size=64 data.max_prompt_length=2048 data.max_response_length=6144 \
    actor_rollout_ref.model.path="$MODEL" \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.5 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.rollout.agent.agent_loop_config_path="$PWD/agent_loop.yaml" \
    trainer.n_gpus_per_node="${GPUS:-1}" trainer.nnodes=1 trainer.logger=console \
    trainer.project_name=jaxgym trainer.experiment_name=verl
