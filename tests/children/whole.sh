#!/bin/sh
# A task that keeps every thread of the supervisor busy: it reports steps, writes lines, leaves a process behind, and
# in its first attempt worker:0 stands still for longer than the stall timeout.
step=0
while [ $step -lt 12 ]; do
    step=$((step + 1))
    echo "line $step"
    echo "{\"kind\":\"progress\",\"attempt\":$CLUSTERKIT_ATTEMPT,\"step\":$step}" > "$CLUSTERKIT_PROGRESS"
    sleep 0.02
done
sleep 60 &
if [ "$CLUSTERKIT_TASK $CLUSTERKIT_ATTEMPT" = "worker:0 1" ]; then sleep 20; fi
