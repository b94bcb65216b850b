"""Reports for people: pages of runs and of folders of runs, comparisons, the status of runs."""
