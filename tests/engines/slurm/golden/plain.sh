#!/bin/sh
#SBATCH --job-name=quiet-otter-7f3a
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --chdir=/shared/job
#SBATCH --output=/shared/runs/quiet-otter-7f3a/slurm.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --signal=B:URG@120
exec /opt/venv/bin/clusterkit up --engine slurm --workers 2 train.py 'it'"'"'s' '$HOME'
