#!/bin/sh
# A command that tells what it sees of the world; what differs from run to run is left out.
grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:|Sig|Shd|Threads|Cpus_allowed_list|Umask)' /proc/self/status | grep -v SigQ
cat /proc/self/limits /proc/self/oom_score_adj
for descriptor in /proc/$$/fd/*; do echo "${descriptor##*/}"; done
readlink /proc/$$/fd/0
pwd
env | grep -Ev '^(CLUSTERKIT_|TF_CONFIG=|_=)' | sort
read -r pid _ _ parent group session _ </proc/$$/stat
test "$pid" = "$group" && test "$pid" = "$session" && echo leads
echo "$0 $*"
