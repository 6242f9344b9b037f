#!/bin/sh
#SBATCH --job-name=quiet-otter-7f3a
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=2
#SBATCH --time=0-02:00:00
#SBATCH --partition=gpu
#SBATCH --chdir=/shared/job
#SBATCH --output=/shared/runs/quiet-otter-7f3a/slurm.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --signal=B:URG@120
#SBATCH --account=lab
#SBATCH "--constraint=a100&nvlink"
#SBATCH "--comment=it is mine"
export CLUSTERKIT_HOME='/shared/state of things'
exec /opt/venv/bin/clusterkit up --engine slurm --workers 2 train.py 'it'"'"'s' '$HOME'
