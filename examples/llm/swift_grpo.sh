#!/usr/bin/env bash
# GRPO with ms-swift and without vLLM: swift_grpo.sh MODEL OUT [FLAGS OF swift rlhf]
#   MODEL: the folder `model` that `sft.py frozen_lake ... --form replies` has written
#   OUT: the weights of the last update are in OUT/v0-TIME/checkpoint-100
# Without vLLM, ms-swift ignores --use_gym_env, and --max_completion_length limits each reply instead of the episode.
set -euo pipefail
if [ $# -lt 2 ]; then
    echo "usage: $0 MODEL OUT [FLAGS OF swift rlhf]" >&2
    exit 2
fi
MODEL=$(realpath "$1") OUT=$(realpath -m "$2") PLUGIN=$(realpath "$(dirname "$0")/../ms_swift/jaxgym_plugin.py")
shift 2
mkdir -p "$OUT"

# The games run on the CPU and leave the GPU to the model.
export JAX_PLATFORMS=cpu
GAME=(frozen_lake size=4 max_turns=12) # the options of episodes.py
jaxgym dataset --game "${GAME[@]}" --format swift --rows 4096 --out "$OUT/rows.jsonl"

swift rlhf --rlhf_type grpo \
    --model "$MODEL" --model_type llama --template chatml \
    --dataset "$OUT/rows.jsonl" \
    --external_plugins "$PLUGIN" \
    --multi_turn_scheduler gym_scheduler --max_turns 12 \
    --reward_funcs jaxgym_return \
    --use_vllm false \
    --num_generations 8 --per_device_train_batch_size 32 --gradient_accumulation_steps 4 --steps_per_generation 8 \
    --max_completion_length 24 --max_length 2048 \
    --learning_rate 2e-5 --lr_scheduler_type constant_with_warmup --warmup_steps 4 --beta 0.0 --temperature 1.0 \
    --tuner_type full --torch_dtype float32 --gradient_checkpointing false \
    --max_steps 100 --logging_steps 1 --log_completions true \
    --save_strategy steps --save_steps 100 --save_only_model true \
    --output_dir "$OUT" "$@"
