"""What people look at: a run's page, comparisons of runs, the status of a run."""
