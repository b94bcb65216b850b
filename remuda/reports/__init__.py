"""Reports for people: the page of a run, comparisons of runs, the status of a run."""
