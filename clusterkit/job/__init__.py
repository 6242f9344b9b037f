"""Jobs: turns options into a job and a plan for each task, and checks whether the job can run here."""
