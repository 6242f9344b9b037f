#!/bin/sh
# Trains nothing: `train.sh STEPS [TIME]` says its steps; worker:0 saves them, and each attempt goes on from there.
# It is for two workers, whose first attempt does not come to its end.
saved=$CLUSTERKIT_CHECKPOINT_DIR/step
step=$(cat "$saved" 2>/dev/null || echo 0)
echo "attempt $CLUSTERKIT_ATTEMPT ($CLUSTERKIT_RESTART_REASON) from $step with $TF_CONFIG"
: >"$CLUSTERKIT_CHECKPOINT_DIR/$CLUSTERKIT_TASK.$CLUSTERKIT_ATTEMPT"
for each in worker:0 worker:1; do # none makes a step before both have read what was saved
    until [ -e "$CLUSTERKIT_CHECKPOINT_DIR/$each.$CLUSTERKIT_ATTEMPT" ]; do sleep 0.02; done
done
while [ "$step" -lt "$1" ]; do
    sleep "${2:-0.05}"
    step=$((step + 1))
    if [ "$CLUSTERKIT_TASK" = worker:0 ]; then
        echo "$step" >"$saved.part" && mv "$saved.part" "$saved"
    fi
    echo "step $step of $1"
    [ "$CLUSTERKIT_ATTEMPT" != 1 ] || [ "$step" -lt 5 ] || sleep 60
done
