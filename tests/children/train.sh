#!/bin/sh
# Trains nothing: `train.sh STEPS [TIME]` says its steps; worker:0 saves them, and each attempt goes on from there.
saved=$CLUSTERKIT_CHECKPOINT_DIR/step
step=$(cat "$saved" 2>/dev/null || echo 0)
echo "attempt $CLUSTERKIT_ATTEMPT ($CLUSTERKIT_RESTART_REASON) from $step with $TF_CONFIG"
while [ "$step" -lt "$1" ]; do
    sleep "${2:-0.05}"
    step=$((step + 1))
    if [ "$CLUSTERKIT_TASK" = worker:0 ]; then
        echo "$step" >"$saved.part" && mv "$saved.part" "$saved"
    fi
    echo "step $step of $1"
done
